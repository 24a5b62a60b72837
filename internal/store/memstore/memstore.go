// Package memstore is a book.Engine in memory, for tests and as the shortest
// description of what an engine does. It keeps nothing after the process and
// deletes nothing that expires.
package memstore

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
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

// pace is a bucket of a key, or of the account if key is empty.
type pace struct {
	key, endpoint string
	period        store.Period
}

type rows map[string]book.Row

// New returns an empty engine.
func New() book.Engine {
	return &engine{accounts: map[string]*account{}, counts: map[string]map[counter]int64{}, holders: map[token.Hash]string{}, spaces: map[book.Space]rows{}}
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
	a.setRooms(&call, limits, rooms)
	if slices.ContainsFunc(rooms, func(room store.Room) bool { return room.Remaining < cost }) {
		return false, nil
	}
	e.count(&call, cost)
	for _, limit := range limits {
		if limit.Period.IsPace() {
			bucket := a.buckets[paceOf(&call, limit)]
			bucket.Take(limit, clock(&call), cost)
			a.buckets[paceOf(&call, limit)] = bucket
		}
	}
	a.setRooms(&call, limits, rooms)
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

func (e *engine) Settle(_ context.Context, call store.Call, cost int64) error {
	defer e.lock()()
	if e.find(call.Account, call.Handle) != nil || e.accounts[call.Account] == nil {
		e.count(&call, cost-call.Weight())
	}
	return nil
}

// count adds to the counters of a call: that of the account, and with a Key
// that of the key. None falls below zero. Those of a deleted account do not rise
// from zero.
func (e *engine) count(call *store.Call, cost int64) {
	counts := e.counts[call.Account]
	for _, key := range slices.Compact([]string{"", call.Key}) {
		c := counter{key, store.Count{Day: call.Day, Endpoint: call.Endpoint}}
		if n := max(0, counts[c]+cost); counts[c] > 0 || n > 0 && e.accounts[call.Account] != nil {
			counts[c] = n
		}
	}
}

// clock is the time of a call for buckets.
func clock(call *store.Call) time.Duration { return time.Duration(call.At.UnixNano()) }

func keyOf(call *store.Call, limit store.Limit) string {
	if limit.OfKey {
		return call.Key
	}
	return ""
}

// coveredOf returns the endpoint whose calls a limit covers, or store.All.
func coveredOf(call *store.Call, limit store.Limit) string {
	if limit.Endpoint == store.All {
		return store.All
	}
	return call.Endpoint
}

func paceOf(call *store.Call, limit store.Limit) pace {
	return pace{keyOf(call, limit), coveredOf(call, limit), limit.Period}
}

func (a *account) setRooms(call *store.Call, limits []store.Limit, rooms []store.Room) {
	for i, limit := range limits {
		if limit.Period.IsPace() {
			rooms[i] = a.buckets[paceOf(call, limit)].Room(limit, clock(call))
			continue
		}
		first, last := call.Day, call.Day
		if limit.Period == store.Month {
			first, last = call.Day.Month()
		}
		var used int64
		for c := range usedOn(a.counts, keyOf(call, limit), first, last) {
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
		c := counter{key, of}
		counts[c] = max(0, counts[c]-n)
	}
	ofClosed := min(back-n, counts[closed])
	counts[credited], counts[closed], counts[closedCredited] = counts[credited]+n, counts[closed]-ofClosed, counts[closedCredited]+ofClosed
	return nil
}

// begin makes room for the counts of a new account.
func (e *engine) begin(id string) {
	counts := map[counter]int64{}
	for c, used := range e.counts[id] {
		switch c.key {
		case "":
			c.key = store.Closed
		case store.Credited:
			c.key = store.ClosedCredited
		}
		counts[c] += used
	}
	e.counts[id] = counts
}

func (e *engine) Change(_ context.Context, at time.Time, ids []string, edit func(int, *book.Account) error) []error {
	defer e.lock()()
	errs := make([]error, len(ids))
	for i, id := range ids {
		errs[i] = e.change(at, id, func(a *book.Account) error { return edit(i, a) })
	}
	return errs
}

func (e *engine) change(at time.Time, id string, edit func(*book.Account) error) error {
	a := e.accounts[id]
	isNew := a == nil
	if isNew {
		e.lastHandle++
		a = &account{handle: e.lastHandle, buckets: map[pace]store.Bucket{}}
	}
	step, err := book.NewStep(id, a.Account, at, time.Now(), edit)
	if err != nil {
		return err
	}
	for _, k := range step.Claims {
		if other := e.accounts[e.holders[k.Hash]]; other != nil && other.ID != id {
			if own := other.Holding(k.Hash, at); own != nil && own.Live(at) {
				return store.ErrTokenTaken
			}
		}
	}
	rows := e.rowsOf(book.Space{Account: id})
	if !rows.commit(step.After.Rows) {
		return book.ErrConflict
	}

	for _, k := range step.Claims {
		e.holders[k.Hash] = id
	}
	maps.DeleteFunc(a.counts, func(c counter, _ int64) bool { return slices.Contains(step.After.Retired, c.key) })
	for _, l := range step.After.Log {
		e.lastID = e.lastID.Next(l.At)
		l.ID = e.lastID
		e.log = append(e.log, l)
	}
	if !step.After.Exists {
		delete(e.accounts, id)
		// The counts of the account stay, those of its keys do not.
		maps.DeleteFunc(e.counts[id], func(c counter, _ int64) bool { return !slices.Contains(store.OwnCounts, c.key) })
		maps.DeleteFunc(rows, func(key string, _ book.Row) bool { return !strings.HasPrefix(key, book.KeptPrefix) })
		return nil
	}
	if isNew {
		e.begin(id)
	}
	a.Account, a.counts = step.After.Clone(), e.counts[id]
	e.accounts[id] = a
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

// rowsOf returns the rows of a space.
func (e *engine) rowsOf(of book.Space) rows {
	of.Handle = 0
	if e.spaces[of] == nil {
		e.spaces[of] = rows{}
	}
	return e.spaces[of]
}

// get returns a row, without a Value if there is none or it has expired.
func (r rows) get(key string) book.Row {
	if row := r[key]; row.Expires.IsZero() || time.Now().Before(row.Expires) {
		return book.Row{Key: key, Value: row.Value, Expires: row.Expires}
	}
	return book.Row{Key: key}
}

// all returns the rows whose keys are not before from and before to, all behind
// from if to is empty, in the order of their keys.
func (r rows) all(from, to string) iter.Seq[book.Row] {
	return func(yield func(book.Row) bool) {
		for _, key := range slices.Sorted(maps.Keys(r)) {
			row := r.get(key)
			if row.Value != nil && key >= from && (to == "" || key < to) && !yield(row) {
				return
			}
		}
	}
}

// commit makes all writes, or none if a row is not as expected.
func (r rows) commit(writes []book.Write) bool {
	for _, w := range writes {
		if value := r.get(w.Key).Value; w.Check && (!bytes.Equal(value, w.Old) || (value == nil) != (w.Old == nil)) {
			return false
		}
	}
	for _, w := range writes {
		r[w.Key] = w.Row
	}
	return true
}

func (e *engine) GetRows(_ context.Context, of book.Space, keys ...string) (list []book.Row, err error) {
	defer e.lock()()
	for _, key := range keys {
		list = append(list, e.rowsOf(of).get(key))
	}
	return list, nil
}

func (e *engine) Scan(_ context.Context, limit int, ranges ...book.Range) ([][]book.Row, error) {
	defer e.lock()()
	lists := make([][]book.Row, len(ranges))
	for i, r := range ranges {
		all := slices.Collect(e.rowsOf(r.Space).all(r.From, r.To))
		lists[i] = all[:min(len(all), limit)]
		limit -= len(lists[i])
	}
	return lists, nil
}

func (e *engine) Commit(_ context.Context, batches ...book.Batch) []error {
	defer e.lock()()
	errs := make([]error, len(batches))
	for i, b := range batches {
		exists := b.Account == "" || e.find(b.Account, b.Handle) != nil
		if exists && !e.rowsOf(b.Space).commit(b.Writes) {
			errs[i] = book.ErrConflict
		}
	}
	return errs
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
