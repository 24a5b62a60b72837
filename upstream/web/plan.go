package web

import (
	"net/http"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// planView is the page that compares the plans.
type planView struct {
	Plans     []planColumn
	Endpoints []planRow
	Zone      string
}

type planColumn struct {
	Name    string
	Current bool
}

type planRow struct {
	api.Endpoint
	// Limits has a cell for each plan.
	Limits []planCell
}

// planCell is a limit as text, empty if the plan has no access.
type planCell struct {
	Limit   string
	Current bool
}

func (s *site) plan(w http.ResponseWriter, _ *http.Request, v *visit) error {
	view := planView{Zone: v.plans.Timezone}
	for _, plan := range v.plans.Plans {
		view.Plans = append(view.Plans, planColumn{plan.Name, plan.Name == v.plan.Name})
	}
	for _, e := range v.plans.Endpoints {
		row := planRow{Endpoint: e}
		for _, plan := range v.plans.Plans {
			row.Limits = append(row.Limits, planCell{limitOf(plan, e.Name), plan.Name == v.plan.Name})
		}
		view.Endpoints = append(view.Endpoints, row)
	}
	return s.views.show(w, http.StatusOK, "plan", v.page("Plan", "settings", view))
}

// offer is the first plan with access, for people whose plan has none.
type offer struct {
	Own, Plan string
	Endpoints []offerRow
}

type offerRow struct{ Endpoint, Limit string }

// offer returns nil if the plan has access.
func (v *visit) offer() *offer {
	if len(v.plan.Limits) > 0 {
		return nil
	}
	o := &offer{Own: v.plan.Name}
	for _, plan := range v.plans.Plans {
		if len(plan.Limits) == 0 {
			continue
		}
		o.Plan = plan.Name
		for _, e := range v.plans.Endpoints {
			if limit := limitOf(plan, e.Name); limit != "" {
				o.Endpoints = append(o.Endpoints, offerRow{e.Name, limit})
			}
		}
		break
	}
	return o
}

// limitOf returns a plan's limit of an endpoint as text, empty if there is no
// access.
func limitOf(plan api.Plan, endpoint string) string {
	limit, listed := plan.Limits[endpoint]
	switch {
	case !listed:
		return ""
	case limit == nil:
		return "Unlimited"
	}
	return humanize.Comma(*limit)
}
