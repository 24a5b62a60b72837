package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
	"github.com/caddy-tollgate/tollgate/caddymodule/terminal"
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
	row(table, "NEAREST", "PLAN", "ENDPOINT", "PERIOD", "USED", "LIMIT", "REMAINING", "RESETS AT", "LABEL")
	for _, n := range top.Nearest {
		row(table, n.Account, n.Plan, n.Endpoint, n.Period, strconv.FormatInt(n.Used, 10), limit(&n.Limit), limit(&n.Remaining), terminal.Time(n.ResetsAt), cmp.Or(n.Label, none))
	}
}
