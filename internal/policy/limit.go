package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Limit is a number of calls from 0 to MaxLimit, or store.Unlimited. In JSON
// it is a number or the string "unlimited".
type Limit int64

// ParseLimit reads a limit of a Caddyfile.
func ParseLimit(s string) (Limit, error) {
	if s == "unlimited" {
		return Limit(store.Unlimited), nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n > MaxLimit {
		return 0, fmt.Errorf("limit %q is neither a whole number from 0 to 10^15 nor unlimited", s)
	}
	return Limit(n), nil
}

// MarshalJSON writes a number or "unlimited".
func (l Limit) MarshalJSON() ([]byte, error) {
	if int64(l) == store.Unlimited {
		return []byte(`"unlimited"`), nil
	}
	return strconv.AppendInt(nil, int64(l), 10), nil
}

// UnmarshalJSON reads a number or "unlimited".
func (l *Limit) UnmarshalJSON(b []byte) (err error) {
	text := string(b)
	if text == `"unlimited"` {
		text = "unlimited"
	} else if strings.HasPrefix(text, `"`) {
		return fmt.Errorf("limit %s is neither a number nor \"unlimited\"", text)
	}
	*l, err = ParseLimit(text)
	return err
}

// noLimit is the Limit of a LimitConfig whose JSON has no limit.
const noLimit = -1

// UnmarshalJSON reads a limit. Without noLimit, a missing number would be 0,
// and the limit would refuse all calls.
func (l *LimitConfig) UnmarshalJSON(b []byte) error {
	type plain LimitConfig
	read := plain{Limit: noLimit}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&read); err != nil {
		return err
	}
	*l = LimitConfig(read)
	return nil
}

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
// convert, convert-month, all-second, convert-calls, convert-concurrent, key-convert,
// address-minute.
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
	if l.Calls && l.Period != store.Concurrent {
		b = append(b, "-calls"...)
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
	for period := store.Second; period <= store.Concurrent; period++ {
		for _, l := range []store.Limit{{}, {OfKey: true}, {Calls: true}} {
			l.Endpoint, l.Period = endpoint, period
			names = append(names, string(AppendLimitName(nil, &l)))
		}
	}
	return names
}
