// Package ledger decides, in memory, which tokens are valid and which calls
// are admitted. A decision is in a Log before it takes effect.
//
// It is the state machine below a store: tables of accounts, tokens and
// counters, and a group commit. The commit's leader decides the changes of
// all callers that wait, appends them to the log as one record and then
// applies them. The package reads no clock, starts no goroutine and knows no
// file format, so a test can drive it through any sequence of calls, crashes
// and restarts.
//
// The tables hold no pointer per account, token or counter, so a million of
// them cost the garbage collector nothing, and a call allocates nothing.
package ledger

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Log is where a Ledger's decisions become durable.
type Log interface {
	// Append writes a group: all of it or nothing. It is never called by
	// two goroutines at once, and must not keep the group. When it fails or
	// panics, nothing of the group takes effect.
	Append(group *Group) error

	// LoadDay calls fn with every count of that day, from any number of
	// goroutines. Nothing of that day is appended meanwhile.
	LoadDay(day calendar.Day, fn func(holder, endpoint string, used int64)) error

	// LoadHolder calls fn with the counts of a holder on some days.
	// Nothing of those days is appended meanwhile.
	LoadHolder(holder string, days []calendar.Day, fn func(endpoint string, used int64)) error

	// Edit makes edits of days that are not in memory, and are not loaded
	// meanwhile. Each is on the disk when it returns, or none of it.
	Edit(edits []Edit) error
}

// Ledger is the state of a store. It is safe for concurrent use.
type Ledger struct {
	plans     intern
	abilities intern // sets, as store.Grant has them
	endpoints intern
	accounts  accounts
	tokens    tokens
	counts    counts
	commits   commits

	closed atomic.Bool
	using  sync.RWMutex // held for reading by Use
}

// New returns an empty ledger. With a nil log it counts in memory only.
func New(log Log) *Ledger {
	l := &Ledger{}
	l.accounts.init()
	l.counts.log = log
	l.commits.turn = make(chan struct{}, 1)
	return l
}

// Close refuses further calls with store.ErrClosed, calls that wait for a
// commit as well. It waits for the commit under way and for all that uses
// the log. It is idempotent.
func (l *Ledger) Close() {
	l.closed.Store(true)
	l.using.Lock()
	defer l.using.Unlock()
	l.counts.loading.Lock()
	defer l.counts.loading.Unlock()
	l.commits.wait()
	defer l.commits.pass()
}

// Use runs fn unless the ledger is closed. Close waits until fn returns. Do
// not call Use within fn.
func (l *Ledger) Use(fn func() error) error {
	l.using.RLock()
	defer l.using.RUnlock()
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
	if !found {
		s.mu.RUnlock()
		return store.Grant{}, store.ErrNoGrant
	}
	row := s.row(at)
	id, name := s.text.at(row.id), s.text.at(row.name)
	number, abilities, expired := row.owner-1, row.abilities, row.expired(now.UnixNano())
	restriction := s.restrictions[*hash]
	// The account is looked at before the lock is released: after that the
	// token may be removed and another account may have this id.
	a := l.accounts.at(number)
	state, terms := l.accounts.state(number)
	s.mu.RUnlock()
	known := store.Grant{Account: a.id, Key: id}
	switch {
	case !state.exists():
		return store.Grant{}, store.ErrNoGrant
	case abilities == revoked:
		return known, store.Revoked
	case expired:
		return known, store.Expired
	case state.disabled():
		return known, store.Disabled
	}
	return store.Grant{
		Account:     a.id,
		Plan:        l.plans.at(state.plan()),
		Key:         id,
		KeyName:     name,
		Abilities:   l.abilities.at(abilities),
		Terms:       terms,
		Restriction: restriction,
		Handle:      newHandle(number, state.generation()),
	}, nil
}

// GrantAccount returns what an account opens without a token. See
// store.Grants.
func (l *Ledger) GrantAccount(id string) (store.Grant, error) {
	if l.closed.Load() {
		return store.Grant{}, store.ErrClosed
	}
	number, found := l.accounts.find(id)
	if !found {
		return store.Grant{}, store.ErrNotFound
	}
	state, terms := l.accounts.state(number)
	switch {
	case !state.exists():
		return store.Grant{}, store.ErrNotFound
	case state.disabled():
		return store.Grant{Account: id}, store.Disabled
	}
	return store.Grant{
		Account: l.accounts.at(number).id,
		Plan:    l.plans.at(state.plan()),
		Terms:   terms,
		Handle:  newHandle(number, state.generation()),
	}, nil
}
