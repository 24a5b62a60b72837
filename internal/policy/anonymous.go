package policy

import (
	"errors"
	"slices"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// AnonymousAccount is the account of all calls without a credential.
const AnonymousAccount = "anonymous"

// AnonymousConfig admits calls without a credential.
type AnonymousConfig struct {
	// Plan is the plan of the account anonymous, which makes all these calls. It
	// cannot have the endpoint usage. Required.
	Plan string `json:"plan,omitempty"`

	// PerAddress has limits of each IPv4 address and IPv6 /64, one for each
	// period. Default: none.
	PerAddress []AddressLimit `json:"per_address,omitempty"`
}

// AddressLimit is a limit of the calls of an address.
type AddressLimit struct {
	// Limit is a number of calls from 1 to 10^15.
	Limit int64 `json:"limit"`

	// Period is "second", "minute" or "hour", a pace, or "day", "week" or
	// "month", a period of the calendar. There is one limit for each period. Required.
	Period string `json:"period"`
}

// Anonymous is what calls without a credential may do.
type Anonymous struct {
	Plan *Plan
	// Limits are those of each address.
	Limits []store.Limit
}

// addressName begins the names of the limits of addresses in RateLimit headers.
const addressName = "address"

// reserveAddressNames reserves the names of the limits of addresses. An endpoint
// cannot have them.
func (p *Policy) reserveAddressNames(c *AnonymousConfig) {
	if c == nil || len(c.PerAddress) == 0 {
		return
	}
	for period := store.Second; period <= store.Month; period++ {
		p.limitNames[string(AppendLimitName(nil, &store.Limit{Period: period, OfAddress: true}))] = "per_address"
	}
}

func (p *Policy) setAnonymous(c *AnonymousConfig) error {
	if c == nil {
		return nil
	}
	a := &Anonymous{Plan: p.plans[c.Plan]}
	var errs []error
	switch usage := p.Endpoint(UsageEndpoint); {
	case a.Plan == nil:
		errs = append(errs, mistake("anonymous", "unknown plan %q: plans are %s", c.Plan, p.PlanNames()))
	case !a.Plan.HasAccess():
		errs = append(errs, mistake("anonymous", "the plan %q opens no endpoint", c.Plan))
	case usage != nil && a.Plan.Lists(usage):
		errs = append(errs, mistake("anonymous", "the plan %q has the endpoint usage, which would show everybody the calls of all: use another plan", c.Plan))
	}
	for _, l := range c.PerAddress {
		subject := "anonymous " + l.Period
		period, valid := store.ParsePeriod(l.Period)
		limit := store.Limit{Endpoint: store.All, Period: period, Max: l.Limit, OfAddress: true}
		switch {
		case !valid:
			errs = append(errs, mistake(subject, "invalid period %q: use %s", l.Period, strings.Join(store.Periods, ", ")))
			continue
		case period == store.Total:
			errs = append(errs, mistake(subject, "an address has no total: use %s", strings.Join(store.Periods[:store.Month], ", ")))
			continue
		case l.Limit < 1 || l.Limit > MaxLimit:
			errs = append(errs, mistake(subject, "limit %d of an address is not from 1 to 10^15", l.Limit))
		case slices.ContainsFunc(a.Limits, limit.Same):
			errs = append(errs, mistake(subject, "duplicate limit of an address for each %s", period))
		}
		a.Limits = append(a.Limits, limit)
	}
	if p.Anonymous = a; p.Identity != nil {
		p.Identity.anonymous = true
	}
	return errors.Join(errs...)
}
