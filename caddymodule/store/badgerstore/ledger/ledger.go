// Package ledger decides, in memory, who may call and how often, and
// makes every decision durable through a Log before it counts.
//
// It is the state machine below a store: tables of accounts, tokens and
// counters, and a group commit that writes what many callers decided at
// the same time as one record. It reads no clock, starts no
// goroutine and knows no file format, so that a test can drive it
// through any sequence of calls, crashes and reloads.
//
// The tables are flat. They hold no pointer per account, token or
// counter, so a million of them cost the garbage collector nothing, and
// the common call allocates nothing.
package ledger

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Log is where a Ledger's decisions become durable.
type Log interface {
	// Append writes a group: all of it or nothing. It is never called by
	// two goroutines at once, and must not keep the group. When it fails
	// or panics, the ledger takes back what the group decided and tells
	// its callers store.ErrUnavailable.
	Append(group *Group) error

	// LoadDay calls fn with every count of that day, from as many
	// goroutines as it likes. Nothing of that day is appended meanwhile.
	LoadDay(day calendar.Day, fn func(account, endpoint string, used int64)) error

	// Clear removes the counts of calls whose days are not in memory, and
	// are not loaded meanwhile.
	Clear(calls []store.Call) error
}

// Ledger is the state of a store. It is safe for concurrent use.
type Ledger struct {
	plans     intern
	abilities intern // sets, as store.Grant has them
	endpoints intern
	accounts  accounts
	tokens    tokens
	counters  counters
	closed    atomic.Bool // set while calls and life are both held

	// What follows is written by every call. It has cache lines of its own,
	// so that what is above stays in those of all processors.
	_       cpu.CacheLinePad
	commits commits
	_       cpu.CacheLinePad

	// calls is held for reading while a call is decided, and for writing
	// to let go of a day, which nobody may be counting in then. life is
	// held for reading by Use. They are two, so that a long look at the
	// log holds up no call. Close holds both for writing, in the order
	// life, calls, which is that of Reset within Use as well.
	calls sync.RWMutex
	_     cpu.CacheLinePad
	life  sync.RWMutex
}

// New returns an empty ledger. With a nil log it counts in memory only.
func New(log Log) *Ledger {
	l := &Ledger{}
	l.accounts.init()
	l.counters.log = log
	l.commits.log = log
	return l
}

// Close waits for the calls under way and refuses all further ones with
// store.ErrClosed. It is idempotent.
func (l *Ledger) Close() {
	l.life.Lock()
	defer l.life.Unlock()
	l.calls.Lock()
	defer l.calls.Unlock()
	l.closed.Store(true)
}

// Use runs fn unless the ledger is closed, and keeps it from being closed
// meanwhile. It does not nest.
func (l *Ledger) Use(fn func() error) error {
	l.life.RLock()
	defer l.life.RUnlock()
	if l.closed.Load() {
		return store.ErrClosed
	}
	return fn()
}

// Grant returns what a token opens at now. See store.Grants.
func (l *Ledger) Grant(hash *token.Hash, now time.Time) (store.Grant, error) {
	if l.closed.Load() {
		return store.Grant{}, store.ErrClosed
	}
	s, key := l.tokens.shard(hash)
	s.mu.RLock()
	at, found := s.search(key, hash)
	if !found || s.row(at).expired(now.UnixNano()) {
		s.mu.RUnlock()
		return store.Grant{}, store.ErrNoGrant
	}
	row := s.row(at)
	id, name := s.text.at(row.id), s.text.at(row.name)
	number, abilities := row.owner-1, row.abilities
	// Before the token's row can go: behind that, an account of this id may
	// be another one.
	a := l.accounts.at(number)
	state := a.load()
	s.mu.RUnlock()
	if !state.exists() || state.disabled() {
		return store.Grant{}, store.ErrNoGrant
	}
	return store.Grant{
		Account:   a.id,
		Plan:      l.plans.at(state.plan()),
		Key:       id,
		KeyName:   name,
		Abilities: l.abilities.at(abilities),
		Handle:    newHandle(number, state.life()),
	}, nil
}

// Take admits one call. See store.Counter. Calls that are being committed
// count already, and those that are being given back still do: whether or
// not that succeeds, no more than limit are let in. Should a commit fail,
// a call that was refused or numbered meanwhile has been told a count that
// never came to be.
func (l *Ledger) Take(call store.Call, limit int64) (used int64, admitted bool, err error) {
	l.calls.RLock()
	defer l.calls.RUnlock()
	if l.closed.Load() {
		return 0, false, store.ErrClosed
	}
	day, err := l.day(call.Day)
	if err != nil {
		return 0, false, err
	}
	h := l.accounts.holder(&call)
	id := l.cell(h.number, call.Endpoint)
	shard := day.shard(id)

	shard.mu.Lock()
	c := shard.at(id)
	if used = l.commits.most(c); used >= limit {
		shard.mu.Unlock()
		return used, false, nil
	}
	if h.gone() {
		shard.mu.Unlock()
		return 0, false, store.ErrNoGrant
	}
	call.Handle = 0 // nothing to the log
	used = c.used
	ticket := l.commits.count(call, shard, c, used+1, false)
	shard.mu.Unlock()

	if err = l.commits.wait(ticket); err != nil {
		return 0, false, err
	}
	return used + 1, true, nil
}

// GiveBack returns one call. See store.Counter. That of an account which
// is gone was given back with it, and one that a reset is about to forget
// waits until that has succeeded.
func (l *Ledger) GiveBack(call store.Call) error {
	l.calls.RLock()
	defer l.calls.RUnlock()
	if l.closed.Load() {
		return store.ErrClosed
	}
	day, err := l.day(call.Day)
	if err != nil {
		return err
	}
	h := l.accounts.holder(&call)
	id := l.cell(h.number, call.Endpoint)
	shard := day.shard(id)

	call.Handle = 0
	for {
		shard.mu.Lock()
		c := shard.at(id)
		if l.commits.most(c) == 0 || h.gone() {
			shard.mu.Unlock()
			return nil
		}
		given := c.used > 0
		ticket := l.commits.count(call, shard, c, max(0, c.used-1), false)
		shard.mu.Unlock()
		if err := l.commits.wait(ticket); err != nil || given {
			return err
		}
	}
}

// Reset sets counters to zero, on the disk as well when it returns, all of
// them with as few writes as one takes. Call it within Use.
func (l *Ledger) Reset(calls ...store.Call) error {
	l.calls.RLock()
	defer l.calls.RUnlock()
	left, err := l.resetLoaded(calls)
	if err != nil || len(left) == 0 {
		return err
	}
	return l.resetUnloaded(left)
}

// resetLoaded resets the counters whose days are in memory, and returns
// the others.
func (l *Ledger) resetLoaded(calls []store.Call) (left []store.Call, err error) {
	var tickets []ticket
	for _, call := range calls {
		day := l.counters.loaded(call.Day)
		if day == nil {
			left = append(left, call)
			continue
		}
		id := l.namedCell(call.Account, call.Endpoint)
		shard := day.shard(id)
		shard.mu.Lock()
		tickets = append(tickets, l.commits.count(call, shard, shard.at(id), 0, true))
		shard.mu.Unlock()
	}
	for _, t := range tickets {
		if failed := l.commits.wait(t); failed != nil {
			err = failed
		}
	}
	return left, err
}

// resetUnloaded resets counters of days that are in the log only, all of
// them with one write. To load the days for that would be a waste, and
// nobody may load them meanwhile.
func (l *Ledger) resetUnloaded(calls []store.Call) error {
	l.counters.mu.Lock()
	defer l.counters.mu.Unlock()
	left, err := l.resetLoaded(calls) // since they were looked at
	if err != nil || len(left) == 0 || l.counters.log == nil {
		return err
	}
	return l.counters.log.Clear(left)
}

// day returns the counters of a day.
func (l *Ledger) day(d calendar.Day) (*day, error) {
	if n := l.counters.loaded(d); n != nil {
		return n, nil
	}
	return l.counters.load(d, l.namedCell)
}

// cell returns the identity of an account's counter for an endpoint.
func (l *Ledger) cell(account uint32, endpoint string) cellID {
	return cellOf(account, l.endpoints.index(endpoint))
}

func (l *Ledger) namedCell(account, endpoint string) cellID {
	return l.cell(l.accounts.number(account), endpoint)
}

func cellOf(account, endpoint uint32) cellID { return cellID(account)<<32 | cellID(endpoint) }
