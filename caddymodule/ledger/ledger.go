// Package ledger decides, in memory, who may call and how often, and
// makes every decision durable through a Log before it counts.
//
// It is the state machine below a store: tables of accounts, tokens and
// counters, and a group commit that writes what many callers decided at
// the same time as one transaction. It reads no clock, starts no
// goroutine and knows no file format, so that a test can drive it
// through any sequence of calls, crashes and reloads.
//
// The tables are flat. They hold no pointer per account, token or
// counter, so a million of them cost the garbage collector nothing, and
// the common call allocates nothing.
package ledger

import (
	"errors"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Log is where a Ledger's decisions become durable.
type Log interface {
	// Append writes a group as one transaction: all of it or nothing.
	// It is never called by two goroutines at once, and must not keep
	// the group.
	Append(group *Group) error

	// LoadDay calls fn with every count of that day.
	LoadDay(day calendar.Day, fn func(account, endpoint string, used int64)) error
}

// Ledger is the state of a store. It is safe for concurrent use.
type Ledger struct {
	names    intern // plans, ability sets and endpoints
	accounts accounts
	tokens   tokens
	counters counters
	commits  commits

	// life is held for reading by every call and for writing to close
	// the ledger or to let go of a day, which nobody may be using then.
	life   sync.RWMutex
	closed bool
}

// New returns an empty ledger. With a nil log it counts in memory only.
func New(log Log) *Ledger {
	l := &Ledger{}
	l.accounts.init()
	l.tokens.init()
	l.counters.log = log
	l.commits.log = log
	return l
}

// Close waits for the calls under way and refuses all further ones with
// store.ErrClosed. It is idempotent.
func (l *Ledger) Close() {
	l.life.Lock()
	defer l.life.Unlock()
	l.closed = true
}

// Use runs fn unless the ledger is closed, and keeps it from being closed
// meanwhile. It does not nest.
func (l *Ledger) Use(fn func() error) error {
	l.life.RLock()
	defer l.life.RUnlock()
	if l.closed {
		return store.ErrClosed
	}
	return fn()
}

// Grant returns what a token opens at now. See store.Grants.
func (l *Ledger) Grant(hash *token.Hash, now time.Time) (store.Grant, error) {
	l.life.RLock()
	defer l.life.RUnlock()
	if l.closed {
		return store.Grant{}, store.ErrClosed
	}
	t, ok := l.tokens.find(hash)
	if !ok || (t.expires != 0 && now.UnixNano() >= t.expires) {
		return store.Grant{}, store.ErrNoGrant
	}
	a := l.accounts.at(t.account)
	state := a.load()
	if !state.exists() || state.disabled() {
		return store.Grant{}, store.ErrNoGrant
	}
	return store.Grant{
		Account:   a.id,
		Plan:      l.names.at(state.plan()),
		Key:       t.id,
		KeyName:   t.name,
		Abilities: l.names.at(t.abilities),
	}, nil
}

// Take admits one call. See store.Counter.
func (l *Ledger) Take(call store.Call, limit int64) (used int64, admitted bool, err error) {
	l.life.RLock()
	defer l.life.RUnlock()
	if l.closed {
		return 0, false, store.ErrClosed
	}
	day, err := l.counters.day(call.Day, l.cell)
	if err != nil {
		return 0, false, err
	}
	id := l.cell(call.Account, call.Endpoint)
	shard := day.shard(id)

	shard.mu.Lock()
	c := shard.at(id)
	if c.used >= limit {
		used = c.used
		shard.mu.Unlock()
		return used, false, nil
	}
	c.used++
	used = c.used
	ticket := l.commits.count(call, c)
	shard.mu.Unlock()

	if err = l.commits.wait(ticket); err != nil {
		shard.mu.Lock()
		shard.at(id).undo()
		shard.mu.Unlock()
		return 0, false, errors.Join(store.ErrUnavailable, err)
	}
	return used, true, nil
}

// GiveBack returns one call. See store.Counter. If the log cannot be
// written the call is given back in memory all the same, and in the log
// with the next call that is counted there.
func (l *Ledger) GiveBack(call store.Call) error {
	return l.Use(func() error {
		return l.set(call, func(c *counter) bool {
			if c.used == 0 {
				return false
			}
			c.used--
			return true
		})
	})
}

// Reset sets a counter to zero. Call it within Use.
func (l *Ledger) Reset(call store.Call) error {
	return l.set(call, func(c *counter) bool {
		c.used = 0
		return true
	})
}

// set changes a counter and commits it if change says that it did.
func (l *Ledger) set(call store.Call, change func(*counter) bool) error {
	day, err := l.counters.day(call.Day, l.cell)
	if err != nil {
		return err
	}
	id := l.cell(call.Account, call.Endpoint)
	shard := day.shard(id)
	shard.mu.Lock()
	c := shard.at(id)
	if !change(c) {
		shard.mu.Unlock()
		return nil
	}
	ticket := l.commits.count(call, c)
	shard.mu.Unlock()
	return l.commits.wait(ticket)
}

// Write commits changes together with whatever else is waiting. With
// sync they have reached the disk when it returns. Call it within Use.
func (l *Ledger) Write(sync bool, changes ...Change) error {
	return l.commits.wait(l.commits.changes(changes, sync))
}

// cell returns the identity of an account's counter for an endpoint.
func (l *Ledger) cell(account, endpoint string) cellID {
	return cellID(l.accounts.index(account))<<16 | cellID(l.names.index(endpoint))&0xffff
}
