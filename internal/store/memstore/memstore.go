// Package memstore is a book.Engine in memory, for tests and as the shortest
// description of what an engine does. It keeps nothing after the process and
// deletes nothing that expires.
package memstore

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// engine is a book.Engine. One mutex makes each method one step.
type engine struct {
	mu         sync.Mutex // guards what follows
	accounts   map[string]*account
	counts     map[string]map[counter]int64 // by account, also of deleted ones
	holders    map[token.Hash]string        // the account that got a token last
	spaces     map[book.Space]rows          // without handles
	receipts   map[receipt]store.Receipt
	log        []book.LogEntry
	lastID     store.EntryID
	lastHandle store.Handle
}

type account struct {
	*book.Account
	handle  store.Handle
	counts  map[counter]int64 // those of the engine
	buckets map[pace]store.Bucket
}

// counter is a counter of a key, or of the account if key is empty.
type counter struct {
	key string
	store.Count
}

// pace is a bucket of a key, or of the account if key is empty. With the key
// CallsKey it counts calls.
type pace struct {
	key, endpoint string
	period        store.Period
}

// New returns an empty engine.
func New() book.Engine {
	return &engine{
		accounts: map[string]*account{}, counts: map[string]map[counter]int64{}, holders: map[token.Hash]string{}, spaces: map[book.Space]rows{},
		receipts: map[receipt]store.Receipt{},
	}
}

// lock locks the engine until the end of the function that defers it.
func (e *engine) lock() (unlock func()) {
	e.mu.Lock()
	return e.mu.Unlock
}

// find returns an account, nil if there is none or if the handle is that of a
// deleted one.
func (e *engine) find(id string, handle store.Handle) *account {
	if a := e.accounts[id]; a != nil && (handle == 0 || handle == a.handle) {
		return a
	}
	return nil
}

func (e *engine) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	defer e.lock()()
	a := e.accounts[e.holders[hash]]
	if a == nil {
		return store.Grant{}, store.ErrNoGrant
	}
	k := a.Holding(hash, now)
	if k == nil {
		return store.Grant{}, store.ErrNoGrant
	}
	if why := k.NoGrant(now, a.Disabled); why != "" {
		return store.Grant{Account: a.ID, Key: k.ID}, why
	}
	return a.grant(k), nil
}

func (a *account) grant(k *book.Key) store.Grant {
	g := a.Grant(k)
	g.Handle = a.handle
	return g
}

func (e *engine) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return e.Grant(ctx, hash, now)
}

func (e *engine) GrantAccount(_ context.Context, id string, _ bool) (store.Grant, error) {
	defer e.lock()()
	a := e.accounts[id]
	switch {
	case a == nil:
		return store.Grant{}, store.ErrNotFound
	case a.Disabled:
		return store.Grant{Account: id}, store.Disabled
	}
	return a.grant(nil), nil
}

func (e *engine) Take(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	defer e.lock()()
	a, cost := e.find(call.Account, call.Handle), call.Weight()
	if a == nil {
		return false, store.ErrNoGrant
	}
	if !e.expects(a, call.Receipt) {
		return false, store.ErrReceipt
	}
	a.setRooms(&call, limits, rooms)
	for i, limit := range limits {
		if rooms[i].Remaining < limit.Weight(cost) {
			return false, nil
		}
	}
	e.count(&call, limits, store.Taken(&call, limits, func(i int) int64 { return rooms[i].Used(&limits[i]) }))
	for _, limit := range limits {
		if limit.Period.IsPace() {
			bucket := a.buckets[paceOf(&call, limit)]
			bucket.Take(limit, clock(&call), limit.Weight(cost))
			a.buckets[paceOf(&call, limit)] = bucket
		}
	}
	a.setRooms(&call, limits, rooms)
	e.keep(a, call.Receipt)
	return true, nil
}

func (e *engine) Rooms(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	defer e.lock()()
	a := e.find(call.Account, call.Handle)
	if a == nil {
		return store.ErrNoGrant
	}
	a.setRooms(&call, limits, rooms)
	return nil
}

func (e *engine) Settle(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	defer e.lock()()
	a := e.find(call.Account, call.Handle)
	if !e.expects(a, call.Receipt) {
		return store.ErrReceipt
	}
	if a == nil && e.accounts[call.Account] != nil {
		return nil
	}
	e.keep(a, call.Receipt)
	e.count(&call, limits, store.Settled(&call, limits, rooms, cost, refund))
	if a == nil || refund {
		return nil
	}
	for i, limit := range limits {
		if limit.Period.IsPace() && !limit.Calls {
			bucket := a.buckets[paceOf(&call, limit)]
			bucket.Settle(limit, clock(&call), rooms[i].Busy, call.Weight(), cost)
			a.buckets[paceOf(&call, limit)] = bucket
		}
	}
	return nil
}

// count adds to the counters of a call. None falls below zero. Those of a deleted
// account do not rise from zero.
func (e *engine) count(call *store.Call, limits []store.Limit, amounts store.Amounts) {
	counts, places := e.counts[call.Account], store.PlacesOf(call, limits)
	for _, p := range places.All() {
		c := counter{p.Key, store.Count{Day: p.Day, Endpoint: call.Endpoint}}
		if n := max(0, counts[c]+amounts[p.Counts]); counts[c] > 0 || n > 0 && e.accounts[call.Account] != nil {
			counts[c] = n
		}
	}
}

// clock is the time of a call for buckets.
func clock(call *store.Call) time.Duration { return time.Duration(call.At.UnixNano()) }

// coveredOf returns the endpoint whose calls a limit covers, or store.All.
func coveredOf(call *store.Call, limit store.Limit) string {
	if limit.Endpoint == store.All {
		return store.All
	}
	return call.Endpoint
}

func paceOf(call *store.Call, limit store.Limit) pace {
	return pace{call.KeyOf(&limit), coveredOf(call, limit), limit.Period}
}

func (a *account) setRooms(call *store.Call, limits []store.Limit, rooms []store.Room) {
	for i, limit := range limits {
		if limit.Period.IsPace() {
			rooms[i] = a.buckets[paceOf(call, limit)].Room(limit, clock(call))
			continue
		}
		days := call.Window(&limit)
		var used int64
		for c := range usedOn(a.counts, call.KeyOf(&limit), days.First, days.Last) {
			if covered := coveredOf(call, limit); c.Endpoint == covered || covered == store.All && c.Endpoint != call.Except {
				used += c.Used
			}
		}
		rooms[i] = limit.RoomAfter(used)
	}
}

// usedOn returns the counts above zero of a key, or of the account if key is
// empty, on the days from first to last.
func usedOn(counts map[counter]int64, key string, first, last calendar.Day) iter.Seq[store.Count] {
	return func(yield func(store.Count) bool) {
		for c, used := range counts {
			if c.Used = used; used > 0 && c.key == key && first <= c.Day && c.Day <= last && !yield(c.Count) {
				return
			}
		}
	}
}

func (e *engine) Counts(_ context.Context, id, key string, first, last calendar.Day) ([]store.Count, error) {
	defer e.lock()()
	return slices.Collect(usedOn(e.counts[id], key, first, last)), nil
}

func (e *engine) CountsOfAccounts(_ context.Context, ids []string, first, last calendar.Day) (list []store.StoredCount, err error) {
	defer e.lock()()
	for _, id := range ids {
		for _, key := range store.OwnCounts {
			for c := range usedOn(e.counts[id], key, first, last) {
				list = append(list, store.StoredCount{Account: id, Key: key, Count: c})
			}
		}
	}
	return list, nil
}

func (e *engine) Credit(_ context.Context, id string, keys []string, day calendar.Day, endpoint string, total int64) error {
	defer e.lock()()
	counts, of := e.counts[id], store.Count{Day: day, Endpoint: endpoint}
	if counts == nil {
		return nil
	}
	used, credited := counter{"", of}, counter{store.Credited, of}
	closed, closedCredited := counter{store.Closed, of}, counter{store.ClosedCredited, of}
	back := max(0, total-counts[credited]-counts[closedCredited])
	n := min(back, counts[used])
	for _, key := range append([]string{""}, keys...) {
		for _, day := range []calendar.Day{day, store.TotalDay} {
			c := counter{key, store.Count{Day: day, Endpoint: endpoint}}
			counts[c] = max(0, counts[c]-n)
		}
	}
	ofClosed := min(back-n, counts[closed])
	counts[credited], counts[closed], counts[closedCredited] = counts[credited]+n, counts[closed]-ofClosed, counts[closedCredited]+ofClosed
	return nil
}

func (e *engine) Get(_ context.Context, id string) (*book.Account, error) {
	defer e.lock()()
	if a := e.accounts[id]; a != nil {
		return a.Clone(), nil
	}
	return nil, store.ErrNotFound
}

func (e *engine) List(_ context.Context, after string, limit int, _ bool) (list []*book.Account, err error) {
	defer e.lock()()
	for _, id := range slices.Sorted(maps.Keys(e.accounts)) {
		if id > after && len(list) < limit {
			list = append(list, e.accounts[id].Clone())
		}
	}
	return list, nil
}

func (e *engine) Holder(_ context.Context, hash token.Hash) (string, error) {
	defer e.lock()()
	if id, known := e.holders[hash]; known {
		return id, nil
	}
	return "", store.ErrNotFound
}

func (e *engine) HolderOfKey(_ context.Context, id string) (string, error) {
	defer e.lock()()
	for _, a := range e.accounts {
		if a.Find(id) != nil {
			return a.ID, nil
		}
	}
	return "", store.ErrNotFound
}

func (e *engine) Totals(context.Context) (t store.Totals, err error) {
	defer e.lock()()
	t.Accounts = len(e.accounts)
	for _, a := range e.accounts {
		for _, k := range a.Keys {
			if k.Live(time.Now()) {
				t.LiveKeys++
			}
		}
	}
	return t, nil
}

func (e *engine) Entries(_ context.Context, after, before store.EntryID, reverse bool, limit int) (list []book.LogEntry, err error) {
	defer e.lock()()
	for _, l := range e.log {
		if l.ID.Compare(after) > 0 && (before == store.EntryID{} || l.ID.Compare(before) < 0) {
			list = append(list, l)
		}
	}
	if reverse {
		slices.Reverse(list)
	}
	return list[:min(len(list), limit)], nil
}

func (e *engine) Dump(_ context.Context, spaces []book.Space, write func(book.Piece) error) error {
	e.mu.Lock()
	var pieces []book.Piece
	for id, a := range e.accounts {
		pieces = append(pieces, book.Piece{Document: a.Clone()})
		for c, used := range a.counts {
			if c.Used = used; used > 0 {
				pieces = append(pieces, book.Piece{Count: &store.StoredCount{Account: id, Key: c.key, Count: c.Count}})
			}
		}
		spaces = append(spaces, book.Space{Account: id})
	}
	for _, of := range spaces {
		for row := range e.rowsOf(of).all("", "") {
			pieces = append(pieces, book.Piece{Space: of, Row: &row})
		}
	}
	for _, l := range e.log {
		pieces = append(pieces, book.Piece{Entry: &l})
	}
	e.mu.Unlock()
	for _, p := range pieces {
		if err := write(p); err != nil {
			return err
		}
	}
	return nil
}

func (*engine) Check(context.Context) error { return nil }
