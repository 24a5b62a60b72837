package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

var errNoEndpoint = misuse.Errorf("--endpoint has no value; omit it for all endpoints")

// shownCalls is the number of recent calls in a table; --json has all.
const shownCalls = 10

func (t *tool) showUsage() *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "show <account>", Short: "Shows an account's usage of today", Args: misuse.Arguments(1),
		ValidArgsFunction: t.complete(accounts),
		Example:           "caddy tollgate usage show acc_1 --days 30",
	}
	c.RunE = query(t, ofAccount(func(ctx context.Context, gate *client.Client, args []string) (api.UsageDocument, error) {
		return gate.Usage(ctx, args[0], days)
	}), showUsage)
	addNumber(c, &days, "days", 0, 1, api.MaxUsageDays, fmt.Sprintf("Add the history of this number of days, up to %d", api.MaxUsageDays))
	return c
}

func (t *tool) resetUsage() *cobra.Command {
	var endpoint, reason string
	c := &cobra.Command{
		Use: "reset <account>", Short: "Gives all calls of today back", Args: misuse.Arguments(1),
		Long: "Gives all calls of today back in every limit of a day or a month, those of keys included. " +
			"The count of calls stays: usage export shows them as credited.",
		ValidArgsFunction: t.complete(accounts),
	}
	c.Flags().StringVar(&endpoint, "endpoint", "", "The endpoint whose calls to give back (default: all)")
	c.Flags().StringVar(&reason, "reason", "", "Why, for the audit log")
	t.completeFlag(c, "endpoint", endpoints)
	c.RunE = perform(t, func(ctx context.Context, gate *client.Client, args []string) (string, error) {
		what := "all endpoints"
		if c.Flags().Changed("endpoint") {
			// A script with an empty variable does not mean all endpoints.
			if endpoint == "" {
				return "", errNoEndpoint
			}
			what = plain(endpoint)
		}
		account, err := accountOf(ctx, gate, args[0])
		if err != nil {
			return "", err
		}
		now, err := gate.Usage(ctx, account, 0)
		if err != nil {
			return "", err
		}
		var counted int64
		for _, e := range now.Endpoints {
			if endpoint == "" || endpoint == e.Endpoint {
				counted += e.Used
			}
		}
		if err := gate.ResetUsage(ctx, account, endpoint, reason); err != nil || counted > 0 {
			return fmt.Sprintf("Gave %d of today's calls of %s back to %s.", counted, what, account), err
		}
		return "Nothing changed: no calls of " + what + " count today.", nil
	})
	return c
}

func (t *tool) creditUsage() *cobra.Command {
	var credit api.CreditRequest
	c := &cobra.Command{
		Use: "credit <account> <endpoint> <calls>", Short: "Gives calls of a day back", Args: misuse.Arguments(3),
		Long: "Gives calls of a day back in every limit of that day and month, those of keys included, but not more than were made " +
			"and not given back before. The count of calls stays: usage export shows them as credited. " +
			"With the same --id, a command that is repeated gives nothing back again. " +
			"Calls of a closed account are given back as well, by its id.",
		Example:           "caddy tollgate usage credit acc_1 convert 500 --day 2026-11-20 --reason 'outage of the rates'",
		ValidArgsFunction: t.complete(accounts, endpoints),
	}
	c.Flags().StringVar(&credit.Day, "day", "", "The day of the calls, for example 2026-11-20 (default: today)")
	c.Flags().StringVar(&credit.Reason, "reason", "", "Why, for the audit log")
	c.Flags().StringVar(&credit.ID, "id", "", "Names the credit, so that it is made once (default: a new id)")
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, args []string) (made api.Credit, err error) {
		if credit.Calls, err = parseCalls("number of calls", args[2], ""); err != nil {
			return made, err
		}
		account, known, err := resolve(ctx, gate, args[0], false)
		if err != nil {
			return made, err
		}
		credit.Endpoint = args[1]
		if credit.ID == "" {
			credit.ID = rand.Text()
		}
		made, err = gate.Credit(ctx, account, credit)
		switch {
		case errors.Is(err, api.ErrNotFound) && !known: // nor was it closed
			err = errUnknownAccount
		case errors.Is(err, client.ErrUnreachable):
			err = fmt.Errorf("%w. If it is not known whether the calls were given back, repeat the command with --id %s", err, credit.ID)
		case err == nil && made.Credited < made.Calls:
			_, _ = fmt.Fprintf(c.ErrOrStderr(), "Gave back %d of %d calls asked: no more calls of %s on %s were left to give back.\n",
				made.Credited, made.Calls, plain(made.Endpoint), made.Day)
		}
		return made, err
	}, func(table io.Writer, made api.Credit) {
		row(table, "ACCOUNT", "ENDPOINT", "DAY", "ASKED", "CALLED", "CREDITED", "ID")
		row(table, made.Account, made.Endpoint, made.Day, strconv.FormatInt(made.Calls, 10), strconv.FormatInt(made.Called, 10), strconv.FormatInt(made.Credited, 10), made.ID)
	})
	return c
}

func showUsage(table io.Writer, d api.UsageDocument) {
	row(table, "Account", d.Account)
	row(table, "Plan", d.Plan)
	row(table, "Day", d.Day+" ("+d.Timezone+")")
	row(table, "Resets at", terminal.Time(d.ResetsAt))
	row(table)
	row(table, "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT")
	for _, e := range d.Endpoints {
		row(table, e.Endpoint, defaultPeriod, strconv.FormatInt(e.Used, 10), limit(e.Limit), limit(e.Remaining), terminal.Time(d.ResetsAt))
		for _, l := range e.Limits {
			if l.Period != defaultPeriod {
				row(table, append([]string{e.Endpoint}, used(l)...)...)
			}
		}
	}
	for _, l := range d.Limits {
		row(table, append([]string{api.All}, used(l)...)...)
	}
	if len(d.Endpoints) == 0 {
		row(table, "The plan gives no access.")
	}
	showCredits(table, d)
	showKeyLimits(table, d)
	showHistory(table, d)
	if len(d.RecentCalls) == 0 {
		return
	}
	row(table)
	row(table, "RECENT CALL", "STATUS", "METHOD", "PATH", "COST", "MS", "KEY")
	for _, call := range d.RecentCalls[:min(len(d.RecentCalls), shownCalls)] {
		status := strings.TrimSpace(strconv.Itoa(call.Status) + " " + call.Code)
		row(table, moment(call.At.Time), status, call.Method, call.Path, strconv.FormatInt(call.Cost, 10),
			strconv.FormatFloat(call.DurationMS, 'f', -1, 64), call.Key)
	}
}

// used formats what was used of a limit. A pace counts nothing.
func used(l api.UsageLimit) []string {
	if l.Used == nil || l.Remaining == nil || l.ResetsAt == nil {
		return []string{l.Period, none, limit(&l.Limit), none, none}
	}
	return []string{l.Period, limit(l.Used), limit(&l.Limit), limit(l.Remaining), terminal.Time(*l.ResetsAt)}
}

// showCredits shows what was given back today, if anything was.
func showCredits(table io.Writer, d api.UsageDocument) {
	shown := false
	for _, e := range d.Endpoints {
		if e.Credited == 0 {
			continue
		}
		if !shown {
			row(table)
			row(table, "CREDITED TODAY", "CALLS", "CREDITED")
		}
		shown = true
		row(table, e.Endpoint, strconv.FormatInt(e.Calls, 10), strconv.FormatInt(e.Credited, 10))
	}
}

func showKeyLimits(table io.Writer, d api.UsageDocument) {
	if len(d.Keys) == 0 {
		return
	}
	row(table)
	row(table, "KEY", "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT")
	for _, key := range d.Keys {
		for _, l := range key.Limits {
			row(table, append([]string{key.Name, l.Endpoint}, used(l.UsageLimit)...)...)
		}
	}
}

// showHistory prints one column for each endpoint.
func showHistory(table io.Writer, d api.UsageDocument) {
	if len(d.Days) == 0 || len(d.Endpoints) == 0 {
		return
	}
	head := []string{"DAY"}
	for _, e := range d.Endpoints {
		head = append(head, e.Endpoint)
	}
	row(table)
	row(table, head...)
	for _, day := range d.Days {
		cells := []string{day.Day}
		for _, e := range d.Endpoints {
			cells = append(cells, strconv.FormatInt(day.Calls[e.Endpoint], 10))
		}
		row(table, cells...)
	}
}
