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
	Current   string
	Offer     *offer
	Endpoints []planEndpoint
	Plans     []planRow
	Zone      string
	Overrides []overrideRow
}

// planEndpoint is an endpoint, or all endpoints together. Then Routes is empty.
type planEndpoint struct {
	Name, Routes string
	// Cost is the cost of a call in words, empty for 1.
	Cost string
	unit string
}

// planRow is a plan with a cell for each endpoint.
type planRow struct {
	Name    string
	Current bool
	Cells   []planCell
	// Added, Missing and Other are the endpoints that only this plan has, that
	// only the plan of the account has, and that have other limits.
	Added, Missing, Other []string
}

// planCell has the limits in words, none if the plan has no access.
type planCell struct {
	planEndpoint
	Limits []string
	// Other is true if the plan of the account has other limits.
	Other bool
}

func (s *site) plan(w http.ResponseWriter, r *http.Request, v *visit) error {
	overrides, err := s.overridesOf(r.Context(), v)
	if err != nil {
		return err
	}
	return s.showPlan(w, v, overrides)
}

func (s *site) showPlan(w http.ResponseWriter, v *visit, overrides []overrideRow) error {
	view := planView{Current: v.plan.Name, Offer: v.offer(), Zone: v.plans.Timezone, Overrides: overrides}
	for _, e := range v.plans.Endpoints {
		view.Endpoints = append(view.Endpoints, planEndpoint{e.Name, e.Summary(), costText(e), e.Unit})
	}
	if slices.ContainsFunc(v.plans.Plans, func(p api.Plan) bool { return len(planLimits(p, api.All, "")) > 0 }) {
		view.Endpoints = append(view.Endpoints, planEndpoint{Name: covers(api.All)})
	}
	for _, plan := range v.plans.Plans {
		view.Plans = append(view.Plans, newPlanRow(view.Endpoints, plan, v.plan))
	}
	return s.views.show(w, http.StatusOK, "plan", v.page("Plan", "settings", view))
}

// newPlanRow compares a plan with that of the account.
func newPlanRow(endpoints []planEndpoint, plan, own api.Plan) planRow {
	row := planRow{Name: plan.Name, Current: plan.Name == own.Name}
	for _, e := range endpoints {
		name, together := e.Name, e.Routes == ""
		if together {
			name = api.All
		}
		limits, now := planLimits(plan, name, e.unit), planLimits(own, name, e.unit)
		row.Cells = append(row.Cells, planCell{e, limits, !slices.Equal(limits, now)})
		switch {
		case slices.Equal(limits, now):
		case now == nil && !together:
			row.Added = append(row.Added, e.Name)
		case limits == nil && !together:
			row.Missing = append(row.Missing, e.Name)
		case len(plan.Limits) > 0 && len(own.Limits) > 0:
			row.Other = append(row.Other, e.Name)
		}
	}
	return row
}

// costText returns the cost of a call to the endpoint in words, empty for 1.
func costText(e api.Endpoint) string {
	switch {
	case e.CostAnswer != nil && e.CostAnswer.Bound != nil:
		return "a call costs what its answer tells; what it can cost at most must be left"
	case e.CostAnswer != nil:
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
			o.add(plan, e.Name, e.Unit)
		}
		o.add(plan, api.All, "")
	}
	return o
}

// add adds the plan's limits of an endpoint, or of all endpoints together.
func (o *offer) add(plan api.Plan, endpoint, unit string) {
	if limits := planLimits(plan, endpoint, unit); limits != nil {
		o.Rows = append(o.Rows, offerRow{covers(endpoint), limits})
	}
}

// limitText returns a limit in words, such as "1,000 a day" and "at most 10 a
// second". A limit of 0 admits no call.
func limitText(limit int64, period string) string { return unitText(limit, "", period) }

// unitText is limitText with what the limit counts, empty for calls.
func unitText(limit int64, unit, period string) string {
	if limit == 0 && period != api.Total {
		return "Closed"
	}
	text := inUnit(limit, unit) + " " + api.Per(period)
	if !api.IsQuota(period) {
		return "at most " + text
	}
	return text
}

// covers returns what a limit covers: the name of an endpoint, or the words
// for all.
func covers(endpoint string) string {
	if endpoint == api.All {
		return "All endpoints"
	}
	return endpoint
}

// has tells whether a plan has an endpoint. It has all together if it has one.
func has(plan api.Plan, endpoint string) bool {
	_, listed := plan.Limits[endpoint]
	return listed || endpoint == api.All && len(plan.Limits) > 0
}

// planLimitText returns a limit of a plan in words.
func planLimitText(l api.PlanLimit, unit string) string {
	if l.Calls {
		unit = "calls"
	}
	if l.Soft > 0 {
		return inUnit(l.Limit, unit) + " " + api.Per(l.Period) + " included, then overage up to " + humanize.Comma(l.Soft)
	}
	return unitText(l.Limit, unit, l.Period)
}

// planLimits returns a plan's limits of an endpoint, or of all endpoints
// together, in words; unit is what they count. It returns nil without access, and if
// there is no limit of all endpoints.
func planLimits(plan api.Plan, endpoint, unit string) []string {
	if !has(plan, endpoint) {
		return nil
	}
	var quotas, paces []string
	if daily := plan.Limits[endpoint]; daily != nil {
		quotas = append(quotas, unitText(*daily, unit, api.Day))
	}
	for _, l := range plan.MoreLimits {
		switch {
		case l.Endpoint != endpoint:
		case !api.IsQuota(l.Period):
			paces = append(paces, planLimitText(l, unit))
		default:
			quotas = append(quotas, planLimitText(l, unit))
		}
	}
	if endpoint != api.All && len(quotas) == 0 {
		quotas = append(quotas, "Unlimited")
	}
	return append(quotas, paces...)
}
