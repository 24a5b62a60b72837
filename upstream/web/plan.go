package web

import (
	"net/http"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// planView is the page that compares the plans.
type planView struct {
	// Current is the plan of the account. Offer is set if it has no access.
	Current string
	Offer   *offer
	Plans   []planColumn
	Rows    []planRow
	Zone    string
}

type planColumn struct {
	Name    string
	Current bool
}

// planRow is an endpoint, or all endpoints together. Then Method and Path are
// empty.
type planRow struct {
	Name, Method, Path string
	// Cost is the cost of a call in words, empty for 1.
	Cost string
	// Limits has a cell for each plan.
	Limits []planCell
}

// planCell has the limits in words, none if the plan has no access.
type planCell struct {
	Limits  []string
	Current bool
}

func (s *site) plan(w http.ResponseWriter, _ *http.Request, v *visit) error {
	view := planView{Current: v.plan.Name, Offer: v.offer(), Zone: v.plans.Timezone}
	for _, plan := range v.plans.Plans {
		view.Plans = append(view.Plans, planColumn{plan.Name, plan.Name == v.plan.Name})
	}
	for _, e := range v.plans.Endpoints {
		view.Rows = append(view.Rows, planRow{e.Name, e.Method, e.Path, costText(e), v.planCells(e.Name)})
	}
	together := planRow{Name: covers(api.All), Limits: v.planCells(api.All)}
	if slices.ContainsFunc(together.Limits, func(c planCell) bool { return len(c.Limits) > 0 }) {
		view.Rows = append(view.Rows, together)
	}
	return s.views.show(w, http.StatusOK, "plan", v.page("Plan", "settings", view))
}

func (v *visit) planCells(endpoint string) []planCell {
	var cells []planCell
	for _, plan := range v.plans.Plans {
		cells = append(cells, planCell{planLimits(plan, endpoint), plan.Name == v.plan.Name})
	}
	return cells
}

// costText returns the cost of a call to the endpoint in words, empty for 1.
func costText(e api.Endpoint) string {
	switch {
	case e.CostHeader != nil:
		return "a call costs what its answer tells; " + humanize.Comma(e.Cost) + " must be left"
	case e.CostMember != nil:
		return "a call costs 1 for each element of " + *e.CostMember
	case e.Cost > 1:
		return "a call costs " + humanize.Comma(e.Cost)
	}
	return ""
}

// offer is the first plan with access, for people whose plan has none.
type offer struct {
	Own, Plan string
	// Higher is set if further plans have access.
	Higher bool
	Rows   []offerRow
}

type offerRow struct {
	Name   string
	Limits []string
}

func (v *visit) offer() *offer { return newOffer(v.plans, v.plan) }

// newOffer returns nil if the plan has access.
func newOffer(plans api.Plans, own api.Plan) *offer {
	if len(own.Limits) > 0 {
		return nil
	}
	o := &offer{Own: own.Name}
	for _, plan := range plans.Plans {
		if len(plan.Limits) == 0 {
			continue
		}
		if o.Plan != "" {
			o.Higher = true
			break
		}
		o.Plan = plan.Name
		for _, e := range plans.Endpoints {
			o.add(plan, e.Name)
		}
		o.add(plan, api.All)
	}
	return o
}

// add adds the plan's limits of an endpoint, or of all endpoints together.
func (o *offer) add(plan api.Plan, endpoint string) {
	if limits := planLimits(plan, endpoint); limits != nil {
		o.Rows = append(o.Rows, offerRow{covers(endpoint), limits})
	}
}
