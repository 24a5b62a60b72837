package cli

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/misuse"
)

func (t *Tool) plans() *cobra.Command {
	return &cobra.Command{
		Use: "plans", Short: "Shows the plans and endpoints of the configuration", Args: misuse.Arguments(0),
		RunE: Query(t, func(ctx context.Context, gate *client.Client, _ []string) (api.Plans, error) {
			return gate.Plans(ctx)
		}, showPlans),
	}
}

func showPlans(table io.Writer, plans api.Plans) {
	Row(table, "PLAN", "ENDPOINT", "LIMIT", "PERIOD")
	for _, plan := range plans.Plans {
		if len(plan.Limits) == 0 {
			Row(table, plan.Name, None, "no access", None)
		}
		for _, e := range plans.Endpoints {
			if calls, listed := plan.Limits[e.Name]; listed {
				Row(table, plan.Name, e.Name, Limit(calls), defaultPeriod)
			}
			showMoreLimits(table, plan, e.Name)
		}
		showMoreLimits(table, plan, api.All)
	}
	Row(table)
	Row(table, "ENDPOINT", "ROUTE", "ABILITY", "COST")
	for _, e := range plans.Endpoints {
		cost := strconv.FormatInt(e.Cost, 10)
		switch {
		case e.CostMember != nil:
			cost = "elements of " + *e.CostMember
		case e.CostAnswer != nil:
			reserved := cost + " reserved"
			if e.CostAnswer.Bound != nil {
				reserved = "reserved by " + strings.Join(e.CostAnswer.Bound, ", ") + " or " + cost
			}
			cost = "told by " + e.CostAnswer.Header + strings.Join(e.CostAnswer.Members, " + ") + ", " + reserved
		}
		Row(table, e.Name, strings.TrimSuffix(e.Method+" "+e.Path+" "+e.JSONRPC, " "), e.Ability, cost)
		for _, pattern := range e.Patterns[min(1, len(e.Patterns)):] {
			Row(table, "", pattern, "", "")
		}
	}
	Row(table)
	Row(table, "Days and months end at midnight in "+plans.Timezone+".")
}

func showMoreLimits(table io.Writer, plan api.Plan, endpoint string) {
	for _, l := range plan.MoreLimits {
		if l.Endpoint == endpoint {
			var soft *int64
			if l.Soft > 0 {
				soft = &l.Soft
			}
			Row(table, plan.Name, endpoint, Limit(&l.Limit), Period(l.Period, l.Calls, soft))
		}
	}
}
