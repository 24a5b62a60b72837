// Package store has what the gate and its stores share: accounts, keys, limits
// and reports, and what a call needs of a store.
//
// An admitted call needs at most one Grant, from memory or a cache, and one
// Take, which is one round trip. The gate does not know which store it uses. A
// store knows neither HTTP nor plans: the gate passes the limits to it.
//
// Package book has the rules about all this, and the interface of a store.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/contract"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// What a store keeps, and for how long.
const (
	// MaxOverrides is how many overrides an account may have.
	MaxOverrides = contract.MaxOverrides

	// MaxTopUps is how many top-ups of a total may have an end that is not over.
	MaxTopUps = 64

	// MaxLabel is how long the label of an account may be, in characters.
	MaxLabel = contract.MaxLabel

	// MaxBatch is how many accounts are changed together at most.
	MaxBatch = 500

	// MaxKeyLimits is how many limits of its own a key may have.
	MaxKeyLimits = 32

	// MaxAddresses is how many networks the calls of a key may come from.
	MaxAddresses = 32

	// MaxLiveKeys is how many live keys an account may have. Login tokens
	// and revoked keys do not count.
	MaxLiveKeys = 100

	// MaxLiveLogins is how many live login tokens an account may have. One
	// more revokes the oldest.
	MaxLiveLogins = contract.MaxLiveLogins

	// MaxRecent is how many recent calls are kept for each account.
	MaxRecent = 100

	// MaxRecentRefused is how many of them may be refused. So a client that is
	// refused again and again does not displace all admitted calls.
	MaxRecentRefused = MaxRecent / 2

	// MaxPath is how much of the path of a recent call is kept, in bytes. The
	// client chooses the path, and servers accept a megabyte.
	MaxPath = 512

	// RecentFor is how long a recent call is kept.
	RecentFor = 30 * 24 * time.Hour

	// CountsFor is how many days a count is kept.
	CountsFor = contract.CountDays

	// RevokedFor is how long a revoked or expired key is listed, unless the
	// account has more than MaxEndedKeys of them.
	RevokedFor = contract.EndedDays * 24 * time.Hour

	// MaxEndedKeys is how many revoked and expired keys of an account are
	// listed at most. If there are more, those that ended first are deleted,
	// so that an account that replaces keys all day does not grow. An
	// imported one stays known for RevokedFor, so that importing it again
	// does not make it live.
	MaxEndedKeys = contract.MaxEndedKeys

	// MaxEndedLogins is how many login tokens that ended are kept, for
	// EndedLoginsFor: so that the end of one can be repeated, and so that a
	// clock that is ahead for a moment deletes none that is live.
	MaxEndedLogins = MaxLiveLogins

	// EndedLoginsFor is how long a login token is kept after its end.
	EndedLoginsFor = 48 * time.Hour
)

// Errors that a store returns, also wrapped. The gate treats any other error
// as ErrUnavailable.
var (
	// ErrNoGrant means that a token grants nothing: the token is unknown,
	// expired or revoked, or its account is disabled. A NoGrant is an
	// ErrNoGrant that tells which. Clients must not learn it.
	ErrNoGrant = errors.New("token grants nothing")

	// ErrChanged means that the grant of a call is out of date: the account
	// or one of its keys was changed, or the call's Until is over. No call
	// was counted. Confirm the grant and decide again.
	ErrChanged = errors.New("grant is out of date")

	// ErrUnavailable means that the store cannot read or write now. No call
	// was counted. A change of an account or a key may have been made; it is
	// safe to retry.
	ErrUnavailable = errors.New("store is unavailable")

	// ErrUnknown means that the store does not know whether it counted a
	// call, for example because the reply of its server is lost. Do not
	// serve, give back or retry the call. It is an ErrUnavailable.
	ErrUnknown = unavailable("it is not known whether the call was counted")

	// ErrClosed means that the store was closed, for example before the end
	// of a request of an old configuration. It is an ErrUnavailable.
	ErrClosed = unavailable("store is closed")

	// ErrOpening means that the store is being opened, for example because
	// the gate starts. It is an ErrUnavailable.
	ErrOpening = unavailable("store is being opened")

	// ErrNotClosed means that closing a store failed and the store is still
	// open. Close can be retried. It is an ErrUnavailable.
	ErrNotClosed = fmt.Errorf("%w: it is still open", ErrUnavailable)

	// ErrDeclared means that a change is of what the configuration file
	// declares. Nothing was changed.
	ErrDeclared = errors.New("the configuration file declares it")

	// ErrNotFound means that there is no such account or key.
	ErrNotFound = errors.New("not found")
)

// NoGrant is why a token that the store knows grants nothing. It is also an
// ErrNoGrant.
type NoGrant string

// The reasons. If several apply, the first one counts.
const (
	Revoked  NoGrant = "revoked"
	Expired  NoGrant = "expired"
	Disabled NoGrant = "disabled" // the account
)

func (why NoGrant) Error() string    { return "token grants nothing: " + string(why) }
func (NoGrant) Is(target error) bool { return target == ErrNoGrant }

// WhyNoGrant returns the NoGrant of an error, or "".
func WhyNoGrant(err error) NoGrant {
	why, _ := errors.AsType[NoGrant](err)
	return why
}

// unavailable is an error that is also an ErrUnavailable.
type unavailable string

func (e unavailable) Error() string      { return string(e) }
func (unavailable) Is(target error) bool { return target == ErrUnavailable }

// Grants finds what a token grants.
type Grants interface {
	// Grant returns what the token with this hash grants at now, or
	// ErrNoGrant. It never waits for a disk of this machine. A Grant that is
	// Cached may be out of date if another gate has changed the account. Then
	// Take returns ErrChanged. ErrNoGrant is never from a cache.
	//
	// With a NoGrant, the Grant has the Account and the Key of the token, and
	// nothing else. A store forgets tokens 48 hours after they expire, and some
	// time after they are revoked: then the error is ErrNoGrant.
	Grant(ctx context.Context, hash token.Hash, now time.Time) (Grant, error)

	// Confirm is Grant without a cache. Use it before you refuse a request
	// because of a Cached grant.
	Confirm(ctx context.Context, hash token.Hash, now time.Time) (Grant, error)

	// GrantAccount returns what an account grants without a token: a Grant
	// whose Key, KeyName and Abilities are empty. It returns ErrNoGrant if
	// the account is disabled, and ErrNotFound if there is none; neither is
	// from a cache. Unless fresh is set, the Grant may be Cached.
	GrantAccount(ctx context.Context, account string, fresh bool) (Grant, error)
}

// Grant is the account, the plan and the key of a valid token.
type Grant struct {
	Account string
	Plan    string
	Key     string // the key's id
	KeyName string
	// Abilities is sorted, without duplicates, separated by one space.
	// Equal sets are equal strings.
	Abilities string
	// Terms are those of the account, nil for none. Do not change them. Plan is
	// that of the document: At has the one of an instant.
	Terms *Terms
	// Restriction is nil for a key without limits and addresses of its own.
	Restriction *Restriction
	// Until is when the key expires, for Call.Until. It is zero for a key
	// that never expires, and in stores that do not use Call.Until.
	Until  time.Time
	Handle Handle
	// Version is the state of the account and its keys that the grant is
	// from. It is 0 if the store needs none, because its grants are never
	// out of date.
	Version uint64
	// Cached tells that the grant may be out of date.
	Cached bool
}

// At returns the grant with the plan of an instant.
func (g Grant) At(now time.Time) Grant {
	g.Plan = g.Terms.Plan(g.Plan, now)
	return g
}

// Handle is a store's reference to the account of a grant. Only the store
// that made a handle uses it: to find the account without its id, and to
// refuse a call if the account was deleted after the grant. Zero is no
// handle. A store need not make handles, and accepts calls without one.
type Handle uint64

// Restriction restricts one key further than its account. It is not changed
// once a Grant has it.
type Restriction struct {
	// CountsAs is the Key of the calls of this key.
	CountsAs string
	// Limits are the key's own limits.
	Limits []Limit
	// Addresses are the networks that calls may come from. None allows all.
	Addresses []netip.Prefix
}

// Room is what a limit still admits.
type Room struct {
	// Remaining is the cost that the limit still admits, at least 0: calls of a
	// limit that counts these. Over is how much of a quota was used above the
	// limit.
	Remaining, Over int64
	// Full is the time until a pace admits its whole capacity again. It is
	// 0 for a quota: the calendar has its end.
	Full time.Duration
	// Busy tells one time in which a pace was not full from others. Counter.Settle
	// needs it.
	Busy time.Duration
}

// Used returns what was used of a quota.
func (r *Room) Used(l *Limit) int64 { return l.Max - r.Remaining + r.Over }

// Overage returns how much of a call with some cost is above soft limits: the most
// of all limits. used is what a quota had used before the call.
func Overage(limits []Limit, cost int64, used func(limit int) int64) (over int64) {
	for i := range limits {
		if l := &limits[i]; l.Soft {
			weight := l.Weight(cost)
			over = max(over, min(weight, used(i)+weight-l.Included))
		}
	}
	return over
}

// Sum adds what was used. It does not overflow.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// RoomAfter returns what a quota still admits after some use.
func (l Limit) RoomAfter(used int64) Room {
	return Room{Remaining: max(0, l.Max-used), Over: max(0, used-l.Max)}
}

// Call is a call to count.
type Call struct {
	Account  string
	Endpoint string
	// Key makes the call count for a key as well. It is the CountsAs of a
	// key with limits of its own, and empty for other keys.
	Key string
	// Except is an endpoint that limits of All do not cover, or empty. It
	// differs from Endpoint.
	Except string
	// At is when the call came, for paces. A store with a Clock ignores it.
	At time.Time
	// Day is the day on which the call counts.
	Day calendar.Day
	// Month is the days of the account's month on that day. The zero Window is
	// the month of the calendar.
	Month calendar.Window
	// Cost is how much the call counts. Zero and less count as 1.
	Cost int64
	// Handle is the Handle of the grant, or zero.
	Handle Handle
	// Version is the Version of the grant, or zero.
	Version uint64
	// Until is when the decision about the call ends: the end of the day,
	// of the key or of an override. A store of several gates does not count
	// the call after it, by its own clock. Zero means no end.
	Until time.Time
	// Receipt is nil for most calls. Take and Settle return ErrReceipt, whatever the
	// limits are, unless its Old is what is kept.
	Receipt *Receipt
}

// Window returns the days whose counts add up to what a quota has used.
func (c *Call) Window(l *Limit) calendar.Window {
	month := c.Month
	if l.Period == Month && month == (calendar.Window{}) {
		month = c.Day.MonthFrom(1)
	}
	return l.Period.Window(c.Day, month)
}

// Weight returns the cost of the call, at least 1.
func (c *Call) Weight() int64 { return max(1, c.Cost) }

// Counter admits calls.
//
// A call counts once: on its account, endpoint and day, and with a Key also
// on its key, endpoint and day. What a limit of a week or a month has used is the
// sum of the days, and what a limit of all endpoints has used is the sum of the
// endpoints. A limit that is new today therefore includes the calls before.
// The calls of a key count from the first limit of the key on.
//
// With a limit of Calls, a call also counts 1 on its account's CallsKey. With a
// limit of Total, it counts a second time, on TotalDay instead of its day, for each
// of the account, the key and CallsKey that such a limit is of. With a soft limit,
// what Overage returns counts on its account's OverageKey. All this begins with the
// first call that has such a limit.
//
// A pace is a token bucket: see Bucket. A bucket belongs to an account or a
// key, an endpoint or All, and a Period. It is full at first use.
type Counter interface {
	// Take admits and counts a call if each limit has room for its cost.
	// Otherwise it counts nothing. Concurrent calls never exceed a limit. An
	// admitted call is in the store's log when Take returns.
	//
	// A limit of All covers the calls to all endpoints, and each other limit
	// those to the Endpoint of the call, whatever its own one is: the
	// configuration may have renamed it. rooms has one element for each limit.
	// Take sets it to the room after this call if the
	// call is admitted, otherwise before it. A limit refuses the call if its
	// Remaining is less than the cost. Without limits, each call is admitted.
	//
	// If Take returns an error other than ErrUnknown, nothing was counted.
	// ErrNoGrant means that the account was deleted after the grant, and
	// ErrChanged that the grant is out of date. With an error, rooms has no
	// meaning.
	Take(ctx context.Context, call Call, limits []Limit, rooms []Room) (admitted bool, err error)

	// Rooms sets rooms as Take does, and counts nothing. It has the same
	// errors.
	Rooms(ctx context.Context, call Call, limits []Limit, rooms []Room) error

	// Settle changes what an admitted call counts, from its Cost to another
	// cost: more than its Cost counts even where that exceeds a limit. limits and
	// rooms are those of Take, which admitted the call. Do it once for a call.
	// With refund, the call is given back: cost is 0, it does not count as a call
	// in limits of Calls, and paces do not change. Otherwise paces are set right: a
	// bucket that was not full since Take gets back what is left, and is then at
	// most full; what the call costs more is taken, as far as the bucket has it.
	// The overage becomes what it had been if the call had had that cost in Take.
	//
	// A counter never falls below zero. A credit lowers the counters; a call
	// that was admitted before a credit and is given back after it lowers the
	// counts of the calls since. If the account was deleted after the grant,
	// only counters above zero change, and none if another account has the id.
	//
	// After ErrUnknown the counters may have changed. After another error they
	// have not.
	Settle(ctx context.Context, call Call, limits []Limit, rooms []Room, cost int64, refund bool) error

	// Receipt returns what is kept under a name for the account of a call, or nil. An
	// account that was deleted has no receipts, and the next one with its id does not
	// have them.
	Receipt(ctx context.Context, call Call, name string) ([]byte, error)
}

// Count is the cost of an account's calls to one endpoint on one day.
type Count struct {
	Day      calendar.Day `json:"day"`
	Endpoint string       `json:"endpoint"`
	Used     int64        `json:"used"`
}

// Health checks the store.
type Health interface {
	// Check tries what an admitted call needs, including a durable write,
	// and returns the error. It changes no count. It may wait for a disk
	// after ctx has ended.
	Check(ctx context.Context) error
}
