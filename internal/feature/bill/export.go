package bill

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// monthLayout is the form of --month.
const monthLayout = "2006-01"

func exportCommand(t *cli.Tool) *cobra.Command {
	var month, format, output string
	c := &cobra.Command{
		Use: "export --month <month>", Short: "Exports what all accounts called in a month, for billing", Args: misuse.Arguments(0),
		Long: "Writes one row for each account, day and endpoint with calls, account by account. Calls are counted by their cost. " +
			"Credited is how many of them were given back by usage credit and usage reset: the audit log says by whom and why. " +
			"Overage is how many were above a soft limit when they were made. Period_start is the first day of the account's month: " +
			"for months from another day than the 1st, export two months and group the rows by it. " +
			"Closed accounts are among the rows, also several of one id. " +
			"Days are those of the gate's time zone. The rows of today are not final. A month that has not begun is refused.",
		Example: "caddy tollgate usage export --month 2026-11 --output 2026-11.csv",
	}
	c.Flags().StringVar(&month, "month", "", "The month, for example 2026-11")
	cli.AddChoice(c, &format, "format", "csv", "csv or json", "csv", "json")
	c.Flags().StringVar(&output, "output", "", "The file to write when all rows are there (default: standard output)")
	// The names of the flags are known, so these cannot fail.
	_ = c.MarkFlagRequired("month")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
	c.RunE = func(c *cobra.Command, _ []string) error {
		first, err := time.Parse(monthLayout, month)
		if err != nil {
			return misuse.Errorf("invalid --month %q: want a month such as 2026-11", month)
		}
		if t.JSON && !c.Flags().Changed("format") {
			format = "json"
		}
		gate, err := t.Connect()
		if err != nil {
			return err
		}
		if err := checkMonth(c.Context(), gate, first); err != nil {
			return err
		}
		return write(c, output, func(ctx context.Context, w io.Writer) error {
			if format == "json" {
				return writeJSON(w, rowsOf(ctx, gate, first))
			}
			return writeCSV(w, rowsOf(ctx, gate, first))
		})
	}
	return c
}

// checkMonth refuses a month that has not begun by the clock of the gate: its export
// would look like that of a month without calls. It also refuses one whose first
// days the gate has deleted, because a bill needs all of them.
func checkMonth(ctx context.Context, gate *client.Client, first time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	plans, err := gate.Plans(ctx)
	if err != nil {
		return err
	}
	today, err := calendar.ParseDay(plans.Day)
	month := first.Format(monthLayout)
	switch {
	case err != nil:
		return fmt.Errorf("the day of the gate: %w", err)
	case calendar.UTCDay(first) > today:
		return misuse.Errorf("--month %s has not begun in the gate's time zone", month)
	case calendar.UTCDay(first) <= today-store.CountsFor:
		return misuse.Errorf("--month %s is too long ago: the gate keeps counts for %d days", month, store.CountsFor)
	}
	return nil
}

// rowsOf reads the rows of the month that begins on a day. It keeps one page in
// memory. An error is the last element.
func rowsOf(ctx context.Context, gate *client.Client, first time.Time) iter.Seq2[api.UsageCount, error] {
	return func(yield func(api.UsageCount, error) bool) {
		for after, more := "", true; more; {
			page, err := pageOf(ctx, gate, first, after)
			if err != nil {
				yield(api.UsageCount{}, err)
				return
			}
			for _, row := range page.Counts {
				if !yield(row, nil) {
					return
				}
			}
			if more = page.Next != nil; more {
				after = *page.Next
			}
		}
	}
}

// pageOf reads a page. Each page has a timeout of its own: an export of many
// accounts takes long.
func pageOf(ctx context.Context, gate *client.Client, first time.Time, after string) (api.UsageCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, cli.Timeout)
	defer cancel()
	return gate.Counts(ctx, first.Format(monthLayout), after, client.PageSize)
}

// write calls do with standard output, or with a file that appears only if do
// succeeds: a part of the rows is not enough for a bill.
func write(c *cobra.Command, path string, do func(context.Context, io.Writer) error) error {
	if !c.Flags().Changed("output") {
		return do(c.Context(), c.OutOrStdout())
	}
	if info, err := os.Lstat(path); path == "" || (err == nil && !info.Mode().IsRegular()) {
		return misuse.Errorf("invalid --output %q: want a file", path)
	}
	// The first signal removes the temporary file, a second one ends the
	// process.
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return terminal.ReplaceFile(path, func(draft *os.File) error {
		err := do(ctx, draft)
		if ctx.Err() != nil {
			err = fmt.Errorf("writing %s: %w", path, context.Cause(ctx))
		}
		return err
	})
}

func writeCSV(w io.Writer, rows iter.Seq2[api.UsageCount, error]) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"day", "account", "endpoint", "calls", "credited", "label", "plan", "closed", "overage", "period_start"}) // Error returns the error
	for r, err := range rows {
		if err == nil {
			err = out.Write([]string{
				r.Day, r.Account, r.Endpoint, strconv.FormatInt(r.Calls, 10), strconv.FormatInt(r.Credited, 10),
				noFormula(r.Label), r.Plan, strconv.FormatBool(r.Closed), strconv.FormatInt(r.Overage, 10), r.PeriodStart,
			})
		}
		if err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// noFormula puts an apostrophe before a text that a spreadsheet would take for a
// formula. Customers choose labels.
func noFormula(text string) string {
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// writeJSON writes an array with one row on each line.
func writeJSON(w io.Writer, rows iter.Seq2[api.UsageCount, error]) error {
	out, comma := bufio.NewWriter(w), ""
	_, _ = out.WriteString("[") // Flush returns the error
	for r, err := range rows {
		var text []byte
		if err == nil {
			text, err = json.Marshal(r)
		}
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n%s", comma, text)
		}
		if err != nil {
			return err
		}
		comma = ","
	}
	_, _ = out.WriteString("\n]\n")
	return out.Flush()
}
