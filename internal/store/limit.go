package store

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/contract"
)

// Unlimited is the Max of a limit that is counted and never exhausted.
const Unlimited int64 = math.MaxInt64

// All is the Endpoint of a limit of the calls to all endpoints together. No
// endpoint has this name.
const All = "all"

// Limit bounds the cost of calls within a period: those of an account, or
// those of one key.
type Limit struct {
	// Endpoint is the endpoint whose calls the limit covers, or All.
	Endpoint string `cbor:"1,keyasint" json:"endpoint"`
	Period   Period `cbor:"2,keyasint" json:"period"`
	// Max is the largest cost that is admitted within a day or a month, and
	// the capacity of a pace. It is Unlimited for no bound, otherwise at
	// least 0, and at least 1 for a pace.
	Max int64 `cbor:"3,keyasint" json:"limit"`
	// OfKey makes the limit cover the calls of the call's Key only.
	OfKey bool `cbor:"4,keyasint,omitempty" json:"of_key,omitempty"`
	// OfAddress is for login.AddressCall: stores have no such limits.
	OfAddress bool `cbor:"-" json:"-"`
}

// Same tells whether two limits have the same endpoint and period.
func (l Limit) Same(other Limit) bool {
	return l.Endpoint == other.Endpoint && l.Period == other.Period
}

// Override is a limit of one account that replaces the limit of its plan with
// the same endpoint and period, or adds one.
type Override struct {
	Limit
	ExpiresAt time.Time `cbor:"5,keyasint,omitzero" json:"expires_at,omitzero"` // zero for never
	Reason    string    `cbor:"6,keyasint,omitempty" json:"reason,omitempty"`
	CreatedAt time.Time `cbor:"7,keyasint" json:"created_at"`
}

// Live tells whether the override applies at now.
func (o *Override) Live(now time.Time) bool {
	return o.ExpiresAt.IsZero() || now.Before(o.ExpiresAt)
}

// Period is the time that a limit covers. Longer periods are greater.
type Period uint8

// The periods. Second, Minute and Hour are paces: token buckets that are
// refilled evenly. Day and Month are quotas: periods of the calendar.
const (
	Second Period = iota + 1
	Minute
	Hour
	Day
	Month
)

// Periods lists the names of all periods, the shortest first.
var Periods = contract.Periods()

// ParsePeriod returns the period of a name, and whether there is one.
func ParsePeriod(name string) (period Period, known bool) {
	i := slices.Index(Periods, name)
	return Period(i + 1), i >= 0
}

// String returns the name of the period.
func (p Period) String() string { return Periods[p-1] }

// MarshalText implements encoding.TextMarshaler.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Period) UnmarshalText(text []byte) error {
	parsed, known := ParsePeriod(string(text))
	if !known {
		return fmt.Errorf("unknown period %q", text)
	}
	*p = parsed
	return nil
}

// IsPace tells whether the period is that of a token bucket.
func (p Period) IsPace() bool { return p <= Hour }

// Pace returns the time in which a pace is refilled, 0 for other periods.
func (p Period) Pace() time.Duration {
	switch p {
	case Second:
		return time.Second
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	}
	return 0
}

// Quota says that an account has reached a percentage of a limit of a day or
// a month, or that the limit has refused a call.
type Quota struct {
	Account string
	Plan    string
	// Endpoint is the endpoint of the limit, or All.
	Endpoint string
	// Oldest is the oldest name of the endpoint. The id of the event has it,
	// so that the event is the same one after a rename. Default: Endpoint.
	Oldest string
	Period Period
	Limit  int64
	// Used is what the account has used in the period.
	Used int64
	// Threshold is the percentage of the limit, or 0 if the limit has refused
	// a call.
	Threshold int
	// Start and End are those of the day or the month.
	Start, End time.Time
	// At is the time of the call.
	At time.Time
}
