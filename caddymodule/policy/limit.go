package policy

import (
	"fmt"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// CheckLimit checks the bounds of a limit. A pace without room would refuse
// every call and could never say when to try again.
func CheckLimit(l store.Limit) error {
	switch {
	case l.Max == store.Unlimited:
		return nil
	case l.Max < 0 || l.Max > MaxLimit:
		return fmt.Errorf("limit %d is not from 0 to 10^15", l.Max)
	case l.Max == 0 && l.Period.IsPace():
		return fmt.Errorf("a limit for each %s must be at least 1", l.Period)
	}
	return nil
}

// AppendLimitName appends the name of a limit in the RateLimit fields:
// convert, convert-month, all-second, key-convert.
func AppendLimitName(b []byte, l store.Limit) []byte {
	if l.OfKey {
		b = append(b, "key-"...)
	}
	b = append(b, l.Endpoint...)
	if l.Period != store.Day {
		b = append(append(b, '-'), l.Period.String()...)
	}
	return b
}

// checkLimitNames refuses an endpoint if one of its limits could have the same
// name as a limit of another endpoint.
func (p *Policy) checkLimitNames(endpoint string) error {
	others := map[string]string{}
	for _, name := range limitNames(store.All) {
		others[name] = store.All
	}
	for _, e := range p.Endpoints {
		for _, name := range limitNames(e.Name) {
			others[name] = e.Name
		}
	}
	for _, name := range limitNames(endpoint) {
		if other, taken := others[name]; taken {
			return fmt.Errorf("a limit of it and one of %q would both have the name %q in RateLimit fields: use another name", other, name)
		}
	}
	return nil
}

// limitNames returns the names of all limits that an endpoint can have.
func limitNames(endpoint string) (names []string) {
	for period := store.Second; period <= store.Month; period++ {
		for _, ofKey := range []bool{false, true} {
			names = append(names, string(AppendLimitName(nil, store.Limit{Endpoint: endpoint, Period: period, OfKey: ofKey})))
		}
	}
	return names
}
