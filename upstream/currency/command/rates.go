// Package command has the command of the currency API: rates.
package command

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
	"github.com/caddy-tollgate/tollgate/upstream/currency"
	"github.com/caddy-tollgate/tollgate/upstream/currency/civil"
	"github.com/caddy-tollgate/tollgate/upstream/currency/feed"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/option"
)

// Rates returns the command rates.
func Rates() *cobra.Command {
	group := &cobra.Command{
		Use:                   "rates COMMAND",
		DisableFlagsInUseLine: true,
		Short:                 "Administer the exchange rates",
		Long: `Administer the exchange rates. The program has the rates of the European
Central Bank to the day of its release, fixed parities, and indicative rates of
other currencies. The data directory has the bank's newer rates.

A running server loads the changes of these commands at its next refresh.`,
		Args: cobra.ArbitraryArgs,
		RunE: misuse.Command,
	}
	group.AddCommand(ratesStatus(), ratesRefresh(), ratesImport())
	return group
}

// ratesState is the result of "rates status".
type ratesState struct {
	Newest  civil.Date `json:"date"`
	Days    int        `json:"days"`
	Version string     `json:"version"`
	Bank    bankState  `json:"ecb"`
}

type bankState struct {
	Newest    civil.Date `json:"date"`
	Days      int        `json:"days"`
	FetchedAt *time.Time `json:"fetched_at"`
	CheckedAt *time.Time `json:"checked_at"`
	// Waiting are values that jumped and are not confirmed yet.
	Waiting []heldBack `json:"waiting"`
}

type heldBack struct {
	Date     civil.Date    `json:"date"`
	Currency currency.Code `json:"currency"`
	Rate     json.Number   `json:"rate"`
}

func newRatesState(provider *feed.Feed) ratesState {
	data, status := provider.Current(), provider.Status()
	waiting := make([]heldBack, 0, len(status.Waiting))
	for _, q := range status.Waiting {
		waiting = append(waiting, heldBack{q.Day, q.Code, json.Number(q.Value.String())})
	}
	return ratesState{
		Newest: data.Newest(), Days: data.Days(), Version: data.Version(),
		Bank: bankState{
			Newest: status.Newest, Days: status.Days,
			FetchedAt: orNull(status.FetchedAt), CheckedAt: orNull(status.CheckedAt),
			Waiting: waiting,
		},
	}
}

// orNull makes a zero time null in JSON.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// open opens the rates of a command, to fetch newer ones by a setting.
func open(c *cobra.Command, setting string) (*feed.Feed, error) {
	directory, err := option.DirectoryOf(c)
	if err != nil {
		return nil, err
	}
	from, err := feed.ParseURL(setting)
	if err != nil {
		return nil, err
	}
	return feed.Open(directory, from, option.Logger(c))
}

func ratesStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how old the rates are",
		Args:  misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			provider, err := open(c, ecb.BaseURL)
			if err != nil {
				return err
			}
			if err := provider.Status().Err; err != nil {
				return fmt.Errorf("reading rates: %w", err)
			}
			state := newRatesState(provider)
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(state)
			}
			return printRates(c, state)
		},
	}
	option.Data(new(string)).Declare(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of a table")
	return c
}

func printRates(c *cobra.Command, state ratesState) error {
	when := func(t *time.Time) string {
		if t == nil {
			return "never"
		}
		return terminal.Time(t.UTC())
	}
	table := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Newest rates\t%s\nDays with rates\t%d\n", state.Newest, state.Days)
	fmt.Fprintf(table, "ECB: newest rates\t%s\nECB: days with rates\t%d\n", state.Bank.Newest, state.Bank.Days)
	fmt.Fprintf(table, "ECB: last fetched\t%s\nECB: last asked\t%s\n", when(state.Bank.FetchedAt), when(state.Bank.CheckedAt))
	for _, q := range state.Bank.Waiting {
		fmt.Fprintf(table, "ECB: held back\t%s on %s: %s\n", q.Currency, q.Date, q.Rate)
	}
	return table.Flush()
}

func ratesRefresh() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "refresh",
		Short: "Fetch the bank's newest rates",
		Args:  misuse.Arguments(0),
		RunE: func(c *cobra.Command, _ []string) error {
			provider, err := open(c, from)
			if err != nil {
				return err
			}
			if from == feed.None || !provider.Status().Live {
				return misuse.Errorf("nothing to fetch: --rates is %s; use an HTTP or HTTPS URL", from)
			}
			if err := provider.Refresh(c.Context()); err != nil {
				return fmt.Errorf("refreshing rates: %w", err)
			}
			return printRates(c, newRatesState(provider))
		},
	}
	option.Data(new(string)).Declare(c)
	feed.Setting(&from).Declare(c)
	return c
}

func ratesImport() *cobra.Command {
	c := &cobra.Command{
		Use:   "import <file>",
		Short: "Import a file of the bank",
		Long: `Import a file that you downloaded from the bank: eurofxref-hist.zip,
eurofxref-hist.csv or eurofxref-daily.xml.`,
		Args: misuse.Arguments(1),
		RunE: func(c *cobra.Command, args []string) error {
			provider, err := open(c, ecb.BaseURL)
			if err != nil {
				return err
			}
			report, err := provider.Import(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d values taken, %d dropped, the ECB's newest rates are of %s\n",
				report.Accepted, report.Dropped(), provider.Status().Newest)
			return err
		},
	}
	option.Data(new(string)).Declare(c)
	return c
}
