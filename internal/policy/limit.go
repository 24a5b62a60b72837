package policy

import (
	"fmt"

	"github.com/caddy-tollgate/tollgate/internal/store"
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
		return fmt.Errorf("limit 0 for each %s: use at least 1", l.Period)
	}
	return nil
}

// AppendLimitName appends the name of a limit in the RateLimit headers:
// convert, convert-month, all-second, key-convert, address-minute.
func AppendLimitName(b []byte, l *store.Limit) []byte {
	if l.OfKey {
		b = append(b, "key-"...)
	}
	if l.OfAddress {
		b = append(b, addressName...)
	} else {
		b = append(b, l.Endpoint...)
	}
	if l.Period != store.Day {
		b = append(append(b, '-'), l.Period.String()...)
	}
	return b
}

// reserveLimitNames reserves the names of the limits of an endpoint. It refuses
// the endpoint if another one has reserved such a name.
func (p *Policy) reserveLimitNames(endpoint string) error {
	names := limitNames(endpoint)
	for _, name := range names {
		if other, taken := p.limitNames[name]; taken {
			return fmt.Errorf("its limits and those of %q can have the same name %q in RateLimit headers: rename it", other, name)
		}
	}
	for _, name := range names {
		p.limitNames[name] = endpoint
	}
	return nil
}

// limitNames returns the names of all limits that an endpoint can have.
func limitNames(endpoint string) (names []string) {
	for period := store.Second; period <= store.Month; period++ {
		for _, ofKey := range []bool{false, true} {
			names = append(names, string(AppendLimitName(nil, &store.Limit{Endpoint: endpoint, Period: period, OfKey: ofKey})))
		}
	}
	return names
}
