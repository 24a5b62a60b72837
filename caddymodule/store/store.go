// Package store is the contract between the gate and whatever keeps its
// accounts, tokens and counts.
//
// The contract is small and remote-friendly. One admitted call costs at
// most one Grant (from memory or a cache) and one Take (one round trip in
// a distributed store); everything that describes a call after the fact
// is handed over with Record, which never blocks. Nothing above this
// package knows which store it talks to, and a store knows neither HTTP
// nor plans: it is told a limit, it does not look one up.
//
// Every implementation passes the suite in storetest.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// What every store keeps at the most, and for how long.
const (
	// Unlimited is the limit of an endpoint that is counted and never
	// exhausted.
	Unlimited int64 = math.MaxInt64

	// MaxLiveKeys is how many live keys an account may have. Login tokens
	// and revoked keys do not count.
	MaxLiveKeys = 100

	// MaxLiveLogins is how many live login tokens an account has at the
	// most. One more ends the oldest.
	MaxLiveLogins = 100

	// MaxRecent is how many recent calls are kept for each account.
	MaxRecent = 100

	// RecentFor is how long a recent call is kept.
	RecentFor = 30 * 24 * time.Hour

	// CountsFor is how many days the count of a day is kept.
	CountsFor = 400

	// RevokedFor is how long a revoked or expired key is still listed, if
	// the account has no more than MaxEndedKeys of them.
	RevokedFor = 90 * 24 * time.Hour

	// MaxEndedKeys is how many revoked and expired keys of an account are
	// kept for RevokedFor at least. Of more, those that ended first are
	// deleted, so that an account that replaces keys all day does not fill
	// the store. The same number applies to login tokens, which are deleted
	// soon after they expire.
	MaxEndedKeys = 1000
)

// Errors that a store returns, alone or wrapped. Any other error means
// that the store could not do its work; the gate treats it as
// ErrUnavailable.
var (
	// ErrNoGrant says that a token opens nothing: it is unknown, expired
	// or revoked, or its account is disabled. Callers cannot tell which.
	ErrNoGrant = errors.New("token grants nothing")

	// ErrUnavailable says that the store cannot answer or cannot write
	// now. No call was counted. A change of accounts or keys may have been
	// made; it is safe to repeat.
	ErrUnavailable = errors.New("store is unavailable")

	// ErrUnknown says that it is not known whether a call was counted, as
	// when the reply of a remote store is lost. The call must be neither
	// served nor given back nor repeated. It is an ErrUnavailable.
	ErrUnknown = unknownError{}

	// ErrClosed says that the store was closed, as it is for a request
	// that outlives its configuration. It is an ErrUnavailable.
	ErrClosed = closedError{}

	// ErrOpening says that the store is being opened, as when the gate
	// starts. It is an ErrUnavailable.
	ErrOpening = openingError{}

	// ErrNotClosed says that a store could not be closed and is still open.
	// Closing it can be repeated. It is an ErrUnavailable.
	ErrNotClosed = fmt.Errorf("%w: it is still open", ErrUnavailable)

	// ErrNotFound says that there is no such account or key.
	ErrNotFound = errors.New("not found")

	// ErrNameTaken says that a live key of the account has that name.
	ErrNameTaken = errors.New("a live key has this name")

	// ErrTooManyKeys says that the account has MaxLiveKeys live keys.
	ErrTooManyKeys = errors.New("too many live keys")
)

type unknownError struct{}

func (unknownError) Error() string        { return "it is not known whether the call was counted" }
func (unknownError) Is(target error) bool { return target == ErrUnavailable }

type closedError struct{}

func (closedError) Error() string        { return "store is closed" }
func (closedError) Is(target error) bool { return target == ErrUnavailable }

type openingError struct{}

func (openingError) Error() string        { return "store is being opened" }
func (openingError) Is(target error) bool { return target == ErrUnavailable }

// Store is what the gate asks of a store. All methods are safe for
// concurrent use. A context may end a wait for a network, but not work
// already handed over: a call whose context ends may still have been
// counted. A store on this machine's disk may wait for that regardless.
type Store interface {
	Grants
	Counter
	Accounts
	Keys
	Usage
	Health
}

// Grants answers what a token opens.
type Grants interface {
	// Grant returns what the token with this hash opens at now, or
	// ErrNoGrant. It never waits for a disk.
	Grant(ctx context.Context, hash token.Hash, now time.Time) (Grant, error)
}

// Grant is what a valid token stands for. Its strings are shared and
// live as long as the store.
type Grant struct {
	Account string
	Plan    string
	Key     string // the key's id
	KeyName string
	// Abilities is sorted, without duplicates, separated by one space.
	// Equal sets are equal strings.
	Abilities string
	// Handle is the store's own; see Handle.
	Handle Handle
}

// Handle is a store's short cut to what it found when it granted
// something, for it alone to understand. Whoever takes a call on a grant
// passes the grant's back beside the account, so that the store need not
// look the account up again, and can refuse if it was deleted meanwhile.
// It promises nothing: a store that needs none leaves it zero, and a call
// without one is counted by its names all the same.
type Handle uint64

// Period is the part of the calendar that a limit covers.
type Period uint8

const (
	// Day is a calendar day: that of the call.
	Day Period = iota
	// Month is a calendar month: that of the day of the call.
	Month
)

// Limit bounds the cost of an account's calls within a period.
type Limit struct {
	Period Period
	// Max is the largest cost that is admitted, Unlimited for no bound.
	Max int64
	// All makes the limit cover the calls to all endpoints. Otherwise it
	// covers the calls to the endpoint of the call.
	All bool
	// Except is an endpoint that a limit with All does not cover, or
	// empty. It is not the endpoint of the call.
	Except string
}

// Call is a call to count.
type Call struct {
	Account  string
	Endpoint string
	// Day is the day on which the call counts. Its month is the month of
	// that day.
	Day calendar.Day
	// Cost is how much the call counts. Zero and less count as 1.
	Cost int64
	// Handle is that of the grant of the account, or zero.
	Handle Handle
}

// Weight returns the cost of the call, at least 1.
func (c *Call) Weight() int64 { return max(1, c.Cost) }

// Counter admits calls.
//
// A call counts once: on its account, endpoint and day. What a limit of a
// month has used is the sum of the days, and what a limit of all endpoints
// has used is the sum of the endpoints. A limit that is new today therefore
// includes the calls of the days before.
type Counter interface {
	// Take admits a call if each of the limits has room for its cost, and
	// then counts it. Otherwise it counts nothing. However many calls run
	// at once, no limit is exceeded. An admitted call is in the store's log
	// when Take returns.
	//
	// remaining has one element for each limit. Take sets it to what the
	// limit has left: after this call if it is admitted, otherwise as
	// found. A call is refused by each limit that has less left than the
	// call costs. Without limits each call is admitted.
	//
	// With an error nothing was counted, but for ErrUnknown. ErrNoGrant
	// says that the account was deleted after the grant.
	Take(ctx context.Context, call Call, limits []Limit, remaining []int64) (admitted bool, err error)

	// GiveBack takes the cost of an admitted call off its counter, and so
	// gives it back to every limit. A counter never falls below zero. A
	// reset clears the counter; it cannot tell which calls were given back,
	// so a call from before the reset lowers the count of those after it.
	GiveBack(ctx context.Context, call Call) error
}

// Account is who is billed.
type Account struct {
	ID        string
	Plan      string
	Disabled  bool
	CreatedAt time.Time
}

// Accounts administers accounts. A change is durable when the method
// returns and in force for the next Grant.
type Accounts interface {
	// ChangeAccount changes one account, or creates it, in one atomic
	// step, and returns the account as stored. It calls change with the
	// stored account, or with an account that has only its ID and
	// exists=false, and stores what change leaves in it. The ID of an
	// account and the CreatedAt of an existing account do not change. An
	// error of change aborts the step and is returned as it is.
	//
	// A store may call change more than once, for example after a conflict
	// with another writer. change must not use the store. It may leave an
	// existing account as it is: when ChangeAccount returns nil, the account
	// is durable also then, so that a caller can repeat a failed change.
	ChangeAccount(ctx context.Context, id string, change func(account *Account, exists bool) error) (Account, error)

	// Account returns one account or ErrNotFound.
	Account(ctx context.Context, id string) (Account, error)

	// ListAccounts returns up to limit accounts whose id is greater than
	// after, in ascending order of their ids.
	ListAccounts(ctx context.Context, after string, limit int) ([]Account, error)

	// DeleteAccount removes the account with its tokens, counts and
	// recent calls, or returns ErrNotFound.
	DeleteAccount(ctx context.Context, id string) error
}

// Key is a token without its secret. Zero times are absent.
type Key struct {
	ID         string
	Account    string
	Kind       token.Kind
	Name       string
	Abilities  []string // sorted, without duplicates
	Hint       string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RevokedAt  time.Time
	LastUsedAt time.Time // at most a minute old
}

// Live tells whether the key can be used at now.
func (k Key) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Keys administers tokens of both kinds. A change is synced to the disk
// before the method returns and in force for the next Grant; nothing
// that is written later brings a revoked token back.
type Keys interface {
	// CreateKey stores a new key under the hash of its token. It returns
	// ErrNotFound for an unknown account, and for a token.Key also
	// ErrNameTaken and ErrTooManyKeys, judged at key.CreatedAt. A
	// token.Login is never refused for the number of others: where the
	// account has MaxLiveLogins live ones, the oldest is revoked at
	// key.CreatedAt, in the same step.
	CreateKey(ctx context.Context, key Key, hash token.Hash) error

	// Key returns one key of the account or ErrNotFound.
	Key(ctx context.Context, account, id string) (Key, error)

	// ListKeys returns the account's keys, oldest first, dead ones
	// included for as long as they are kept.
	ListKeys(ctx context.Context, account string) ([]Key, error)

	// RevokeKey ends a key at a time that is now or past; revoking again
	// changes nothing. ErrNotFound for a key that is not the account's.
	RevokeKey(ctx context.Context, account, id string, at time.Time) error

	// EndLogins revokes all login tokens of the account at a time that is
	// now or past, in one step: all of the at most MaxLiveLogins live ones
	// or none. It ends those that exist when it is called, whatever time
	// they were created at, so that no clock decides; one that is created
	// afterwards lives. Keys are not touched. ErrNotFound for an unknown
	// account.
	EndLogins(ctx context.Context, account string, at time.Time) error

	// RotateKey stores next under hash and ends the live key id at
	// oldEnds, in one step: both happen or neither. If oldEnds is not
	// after next.CreatedAt, the old key is revoked. The two may share a
	// name. ErrNotFound if the key is not the account's or not live,
	// ErrNameTaken if it was replaced before, ErrTooManyKeys if both were
	// to live and there is no room for one more. Where login tokens are too
	// many, the oldest of the others is revoked as by CreateKey.
	RotateKey(ctx context.Context, account, id string, next Key, hash token.Hash, oldEnds time.Time) error
}

// Record describes a call after the fact: an admitted one or one that
// was refused because the quota was used up.
type Record struct {
	Account  string
	Key      string // the key's id
	KeyName  string
	At       time.Time
	Endpoint string
	Method   string
	Path     string
	Status   int
	Duration time.Duration
	// Handle is that of the grant of the account, or zero. With it, a call
	// that ends when its account is deleted is dropped, also if there is
	// another of that id by then. It is not kept.
	Handle Handle
}

// Count is how many calls an account made to one endpoint on one day.
type Count struct {
	Day      calendar.Day
	Endpoint string
	Used     int64
}

// Usage tells what was used.
type Usage interface {
	// Record notes a call behind the answer: it never blocks and never
	// fails the call. What is noted reaches the disk within seconds; a
	// store under more load than its disk bears drops some of it.
	Record(record Record)

	// Counts returns the counts above zero of the days from first to
	// last, both included, in no particular order.
	Counts(ctx context.Context, account string, first, last calendar.Day) ([]Count, error)

	// Recent returns the account's last calls, newest first, at most
	// MaxRecent and none older than RecentFor. It includes everything
	// recorded before it was called.
	Recent(ctx context.Context, account string, now time.Time) ([]Record, error)

	// ResetCounts sets the counter of one endpoint, or of all endpoints
	// when endpoint is empty, to zero for that day.
	ResetCounts(ctx context.Context, account, endpoint string, day calendar.Day) error
}

// Health tells whether the store works.
type Health interface {
	// Check tries what an admitted call needs of the store, a durable
	// write included, and returns why it would fail. It changes no count.
	// Like other calls it may wait for a disk beyond the end of ctx.
	Check(ctx context.Context) error
}
