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
	// Max is the largest cost that is admitted within a day, a week, a month or
	// a total, and the capacity of a pace. It is Unlimited for no bound,
	// otherwise at least 0, and at least 1 for a pace.
	Max int64 `cbor:"3,keyasint" json:"limit"`
	// OfKey makes the limit cover the calls of the call's Key only.
	OfKey bool `cbor:"4,keyasint,omitempty" json:"of_key,omitempty"`
	// OfAddress is for login.AddressCall: stores have no such limits.
	OfAddress bool `cbor:"-" json:"-"`
	// Calls makes each call count 1, whatever it costs. Such a call counts on
	// the key CallsKey as well. Plans have such limits, keys and overrides do not.
	Calls bool `cbor:"-" json:"-"`
	// Soft makes the limit admit calls above Included, up to Max. What is above
	// counts on the key Overage as well. Plans have such limits, for a day, a week
	// or a month.
	Soft bool `cbor:"-" json:"-"`
	// Requests is what a limit with Calls counts instead of 1, if it is more: how
	// many requests a call is a batch of. Caches keep many limits: it needs no room
	// of its own here.
	Requests int32 `cbor:"-" json:"-"`
	Included int64 `cbor:"-" json:"-"`
}

// Number returns the number of a limit that customers know: Included of a soft one,
// otherwise Max.
func (l *Limit) Number() int64 {
	if l.Soft {
		return l.Included
	}
	return l.Max
}

// Of returns what the limit is of: "account", "key" or "address".
func (l *Limit) Of() string {
	switch {
	case l.OfKey:
		return "key"
	case l.OfAddress:
		return "address"
	}
	return "account"
}

// Left returns what the customer has left of a limit with a room: nothing once a
// soft one admits more than is included.
func (l *Limit) Left(room *Room) int64 { return max(0, room.Remaining-(l.Max-l.Number())) }

// Weight returns what a call with a cost takes from the limit.
func (l *Limit) Weight(cost int64) int64 {
	if l.Calls {
		return max(1, int64(l.Requests))
	}
	return cost
}

// Same tells whether two limits have the same endpoint and period, and count the
// same.
func (l Limit) Same(other Limit) bool {
	return l.Endpoint == other.Endpoint && l.Period == other.Period && l.Calls == other.Calls
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
// refilled evenly. The others are quotas: periods of the calendar, and Total, which
// never ends. A month begins on the account's billing day. Concurrent is none: its
// limit bounds the calls that run at once, see Concurrency. Only plans have it.
const (
	Second Period = iota + 1
	Minute
	Hour
	Day
	Week
	Month
	Total
	Concurrent
)

// Periods lists the names of all periods, the shortest first, without Concurrent.
var Periods = contract.Periods()

// ParsePeriod returns the period of a name, and whether there is one.
func ParsePeriod(name string) (period Period, known bool) {
	i := slices.Index(Periods, name)
	return Period(i + 1), i >= 0
}

// String returns the name of the period.
func (p Period) String() string {
	if p == Concurrent {
		return contract.Concurrent
	}
	return Periods[p-1]
}

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

// Quota says that an account has reached a percentage of a quota, or that the
// quota has refused a call, or would have without Soft.
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
	// Soft says that the limit goes on to admit calls, and Calls that it counts
	// these.
	Soft, Calls bool
	// Start and End are those of the period. A total begins with its last top-up,
	// or never, and has no End.
	Start, End time.Time
	// At is the time of the call.
	At time.Time
}
