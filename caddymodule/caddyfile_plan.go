package caddymodule

import (
	"slices"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

func (p *parser) plan(args []string) error {
	plan := policy.PlanConfig{Name: args[0], Limits: map[string]*policy.Limit{}}
	if err := p.once("plan "+plan.Name, "plan", plan.Name); err != nil {
		return err
	}
	err := p.eachLine(func() error { return p.limit(&plan) })
	p.app.Plans = append(p.app.Plans, plan)
	return err
}

// limit parses a line of a plan.
func (p *parser) limit(plan *policy.PlanConfig) error {
	name, args := p.d.Val(), p.d.RemainingArgs()
	switch {
	case name == store.All:
		return p.d.Errf("invalid endpoint %q: write * for all endpoints together", name)
	case len(args) < 1 || len(args) > 2:
		return p.d.Err("wrong number of arguments: write <endpoint>|* <number>|unlimited [<period>]")
	}
	number, err := policy.ParseLimit(args[0])
	if err != nil {
		return p.d.WrapErr(err)
	}
	l := policy.LimitConfig{Endpoint: name, Period: store.Day.String(), Limit: number}
	if name == "*" {
		l.Endpoint = store.All
	}
	if len(args) == 2 {
		l.Period = args[1]
	}
	subject := "plan " + plan.Name + " " + l.Endpoint
	if _, named := p.lines[subject]; !named {
		p.lines[subject] = at(p.d)
	}
	if err := p.once(subject+" "+l.Period, "limit", name+" "+l.Period); err != nil {
		return err
	}
	addLimit(plan, l)
	return nil
}

// addLimit adds a daily limit of an endpoint to Limits. Limits has no order
// and comes before MoreLimits, so a daily limit after another limit of the
// same calls goes to MoreLimits, as all others do.
func addLimit(plan *policy.PlanConfig, l policy.LimitConfig) {
	after := slices.ContainsFunc(plan.MoreLimits, func(other policy.LimitConfig) bool {
		return other.Endpoint == l.Endpoint || other.Endpoint == store.All
	})
	_, listed := plan.Limits[l.Endpoint]
	switch {
	case l.Endpoint != store.All && l.Period == store.Day.String() && !after:
		plan.Limits[l.Endpoint] = &l.Limit
		return
	case l.Endpoint != store.All && !listed:
		plan.Limits[l.Endpoint] = nil
	}
	plan.MoreLimits = append(plan.MoreLimits, l)
}
