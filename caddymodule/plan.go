package caddymodule

import (
	"slices"
	"strconv"

	"github.com/caddy-tollgate/tollgate/internal/block"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

func (p *parser) plan(name string) error {
	plan := policy.PlanConfig{Name: name, Limits: map[string]*policy.Limit{}}
	if err := p.Unique("plan "+name, "plan", name); err != nil {
		return err
	}
	err := p.EachLine(func() error {
		if p.Val() == "token_prefix" {
			return p.Option("plan "+name+" ", block.Once(tokenPrefixSyntax, &plan.TokenPrefix))
		}
		return p.limit(&plan)
	})
	p.app.Plans = append(p.app.Plans, plan)
	return err
}

const (
	limitSyntax      = "<endpoint>|* <number>|unlimited [<period>] [soft <ceiling>] [calls]"
	concurrentSyntax = "<endpoint>|* concurrent <number>"
)

// limit parses a line of a plan.
func (p *parser) limit(plan *policy.PlanConfig) error {
	name, args := p.Val(), p.RemainingArgs()
	if len(args) < 1 {
		return p.WrongArguments(limitSyntax)
	}
	if args[0] == store.Concurrent.String() {
		return p.concurrent(plan, name, args[1:])
	}
	number, err := policy.ParseLimit(args[0])
	if err != nil {
		return p.WrapErr(err)
	}
	l := policy.LimitConfig{Endpoint: name, Period: store.Day.String(), Limit: number}
	if name == "*" {
		l.Endpoint = store.All
	}
	if args = args[1:]; len(args) > 0 && args[0] != "soft" && args[0] != "calls" {
		l.Period, args = args[0], args[1:]
	}
	if len(args) > 0 && args[0] == "soft" {
		if len(args) == 1 {
			return p.Err("soft without a ceiling: write soft <ceiling>, the number from which calls are refused")
		}
		if l.Soft, err = strconv.ParseInt(args[1], 10, 64); err != nil || l.Soft < 1 {
			return p.Errf("invalid ceiling %q of soft: use a whole number above the limit", args[1])
		}
		args = args[2:]
	}
	if l.Calls = len(args) > 0 && args[0] == "calls"; l.Calls {
		args = args[1:]
	}
	if len(args) > 0 {
		return p.WrongArguments(limitSyntax)
	}
	subject := "plan " + plan.Name + " " + l.Endpoint
	if _, named := p.Lines[subject]; !named || name == store.All {
		p.Lines[subject] = block.At(p.Dispenser)
	}
	if name == store.All { // a mistake, as in JSON, after one of the endpoint
		plan.Limits[name] = &l.Limit
		return nil
	}
	line := " " + l.Period
	if l.Calls {
		line += " calls"
	}
	if err := p.Unique(subject+line, "limit", name+line); err != nil {
		return err
	}
	addLimit(plan, l)
	return nil
}

// concurrent parses the rest of a line of a plan that limits calls at once.
func (p *parser) concurrent(plan *policy.PlanConfig, name string, args []string) error {
	if len(args) != 1 {
		return p.WrongArguments(concurrentSyntax)
	}
	l := policy.ConcurrentConfig{Endpoint: name}
	if name == "*" {
		l.Endpoint = store.All
	}
	var err error
	if l.Limit, err = strconv.ParseInt(args[0], 10, 64); err != nil {
		return p.Errf("invalid number %q of concurrent: use a whole number from 1 to 1,000,000", args[0])
	}
	subject := "plan " + plan.Name + " " + l.Endpoint
	if _, named := p.Lines[subject]; !named {
		p.Lines[subject] = block.At(p.Dispenser)
	}
	if err := p.Unique(subject+" concurrent", "limit", name+" concurrent"); err != nil {
		return err
	}
	if name == store.All { // a mistake, as for other limits
		plan.Limits[name] = nil
	}
	plan.Concurrent = append(plan.Concurrent, l)
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
	case l.Endpoint != store.All && l.Period == store.Day.String() && !after && l.Soft == 0 && !l.Calls:
		plan.Limits[l.Endpoint] = &l.Limit
		return
	case l.Endpoint != store.All && !listed:
		plan.Limits[l.Endpoint] = nil
	}
	plan.MoreLimits = append(plan.MoreLimits, l)
}
