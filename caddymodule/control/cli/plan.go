package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

func (t *tool) plans() *cobra.Command {
	return &cobra.Command{
		Use: "plans", Short: "Shows the plans and endpoints of the configuration", Args: cobra.NoArgs,
		RunE: query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.Plans, error) {
			return gate.Plans(ctx)
		}, showPlans),
	}
}

func showPlans(table io.Writer, plans api.Plans) {
	row(table, "PLAN", "ENDPOINT", "CALLS A DAY")
	for _, plan := range plans.Plans {
		if len(plan.Limits) == 0 {
			row(table, plan.Name, none, "no access")
		}
		for _, e := range plans.Endpoints {
			if calls, listed := plan.Limits[e.Name]; listed {
				row(table, plan.Name, e.Name, limit(calls))
			}
		}
	}
	row(table)
	row(table, "ENDPOINT", "METHOD", "PATH", "ABILITY")
	for _, e := range plans.Endpoints {
		row(table, e.Name, e.Method, e.Path, e.Ability)
	}
	row(table)
	row(table, "Days end at midnight in "+plans.Timezone+".")
}
