package cli

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
	"github.com/caddy-tollgate/tollgate/internal/misuse"
	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

func (t *tool) topUsage() *cobra.Command {
	var days int
	c := &cobra.Command{
		Use: "top", Short: "Shows the busiest accounts and those nearest to a limit", Args: misuse.Arguments(0),
		Example: "caddy tollgate usage top --days 7",
	}
	addNumber(c, &days, "days", 1, 1, api.MaxUsageDays, fmt.Sprintf("Find the busiest accounts of this number of days, today included, up to %d", api.MaxUsageDays))
	c.RunE = query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.UsageTop, error) {
		return gate.TopUsage(ctx, days, 0)
	}, showTop)
	return c
}

func showTop(table io.Writer, top api.UsageTop) {
	row(table, "BUSIEST", "PLAN", "CALLS", "LABEL")
	for _, b := range top.Busiest {
		row(table, b.Account, b.Plan, strconv.FormatInt(b.Calls, 10), cmp.Or(b.Label, none))
	}
	row(table)
	showNearest(table, top.Nearest)
}

func (t *tool) summary() *cobra.Command {
	return &cobra.Command{
		Use: "summary", Short: "Shows what all accounts called, what was refused, and what needs care", Args: misuse.Arguments(0),
		RunE: query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.Summary, error) {
			return gate.Summary(ctx)
		}, showSummary),
	}
}

func showSummary(table io.Writer, s api.Summary) {
	row(table, "At", moment(s.At))
	row(table, "Accounts", fmt.Sprintf("%d, %d of them disabled", s.Accounts, s.Disabled))
	row(table)
	row(table, "DAY", "CALLS", "REFUSED")
	for _, day := range s.Days {
		row(table, day.Day, byName(day.Calls), byName(day.Refused))
	}
	row(table)
	showNearest(table, s.Nearest)
	row(table)
	row(table, "MOST REFUSED", "PLAN", "CALLS", "CODES", "LABEL")
	for _, a := range s.MostRefused {
		row(table, a.Account, a.Plan, strconv.FormatInt(a.Calls, 10), byName(a.Codes), cmp.Or(a.Label, none))
	}
	row(table)
	showChecks(table, s.Checks)
}

// byName returns numbers with their names.
func byName(numbers map[string]int64) string {
	list := []string{}
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		list = append(list, fmt.Sprintf("%s %d", name, numbers[name]))
	}
	return cmp.Or(strings.Join(list, ", "), none)
}

func showNearest(table io.Writer, nearest []api.NearestLimit) {
	row(table, "NEAREST", "PLAN", "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT", "LABEL")
	for _, n := range nearest {
		row(table, n.Account, n.Plan, n.Endpoint, n.Period, strconv.FormatInt(n.Used, 10), limit(&n.Limit), limit(&n.Remaining), terminal.Time(n.ResetsAt), cmp.Or(n.Label, none))
	}
}
