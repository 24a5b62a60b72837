package report

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// Commands adds the commands.
func Commands(t *cli.Tool, _ *cobra.Command) {
	t.UsageGroup.AddCommand(topCommand(t), summaryCommand(t))
	t.KeyGroup.AddCommand(findCommand(t))
}

func topCommand(t *cli.Tool) *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "top", Short: "Shows the busiest accounts and those nearest to a limit", Args: misuse.Arguments(0),
		Example: "caddy tollgate usage top --days 7",
	}
	cli.AddNumber(c, &days, "days", 1, 1, api.MaxUsageDays, fmt.Sprintf("Find the busiest accounts of this number of days, today included, up to %d", api.MaxUsageDays))
	c.RunE = cli.Query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.UsageTop, error) {
		return gate.TopUsage(ctx, days, 0)
	}, showTop)
	return c
}

func showTop(table io.Writer, top api.UsageTop) {
	cli.Row(table, "BUSIEST", "PLAN", "CALLS", "LABEL")
	for _, b := range top.Busiest {
		cli.Row(table, b.Account, b.Plan, strconv.FormatInt(b.Calls, 10), cmp.Or(b.Label, cli.None))
	}
	cli.Row(table)
	showNearest(table, top.Nearest)
}

func summaryCommand(t *cli.Tool) *cobra.Command {
	return &cobra.Command{
		Use: "summary", Short: "Shows what all accounts called, what was refused, and what needs care", Args: misuse.Arguments(0),
		RunE: cli.Query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.Summary, error) {
			return gate.Summary(ctx)
		}, showSummary),
	}
}

func showSummary(table io.Writer, s api.Summary) {
	cli.Row(table, "At", cli.Moment(s.At))
	cli.Row(table, "Accounts", fmt.Sprintf("%d, %d of them disabled", s.Accounts, s.Disabled))
	cli.Row(table)
	cli.Row(table, "DAY", "CALLS", "REFUSED")
	for _, day := range s.Days {
		cli.Row(table, day.Day, byName(day.Calls), byName(day.Refused))
	}
	cli.Row(table)
	showNearest(table, s.Nearest)
	cli.Row(table)
	cli.Row(table, "MOST REFUSED", "PLAN", "CALLS", "CODES", "LABEL")
	for _, a := range s.MostRefused {
		cli.Row(table, a.Account, a.Plan, strconv.FormatInt(a.Calls, 10), byName(a.Codes), cmp.Or(a.Label, cli.None))
	}
	cli.Row(table)
	cli.ShowChecks(table, s.Checks)
}

// byName returns numbers with their names.
func byName(numbers map[string]int64) string {
	list := []string{}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		list = append(list, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return cmp.Or(strings.Join(list, ", "), cli.None)
}

func showNearest(table io.Writer, nearest []api.NearestLimit) {
	cli.Row(table, "NEAREST", "PLAN", "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT", "LABEL")
	for _, n := range nearest {
		cli.Row(table, n.Account, n.Plan, n.Endpoint, n.Period, strconv.FormatInt(n.Used, 10), cli.Limit(&n.Limit), cli.Limit(&n.Remaining), terminal.Time(n.ResetsAt), cmp.Or(n.Label, cli.None))
	}
}
