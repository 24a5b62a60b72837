// Package memstore is a minimal store in memory, for tests. It shows how
// little store.Store requires: one mutex and maps. It keeps ended keys and
// old counts until their account is deleted.
package memstore

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/keyring"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Store is a store.Store in memory.
type Store struct {
	mu         sync.Mutex // guards the following
	accounts   map[string]*account
	tokens     map[token.Hash]*store.Key
	lastHandle store.Handle
	start      time.Time // of the clock of the buckets, before all calls
	reports
}

var _ store.Store = (*Store)(nil)

type account struct {
	store.Account
	// handle differs from that of a deleted account with the same id.
	handle  store.Handle
	keys    keyring.Ring
	counts  map[counter]int64
	buckets map[pace]store.Bucket
	recent  []store.Record // newest first
}

// counter is a counter of a key, or of the account if key is empty.
type counter struct {
	key      string
	day      calendar.Day
	endpoint string
}

// pace is a pace of a key, or of the account if key is empty.
type pace struct {
	key      string
	endpoint string
	period   store.Period
}

// New returns an empty store.
func New() *Store {
	return &Store{accounts: map[string]*account{}, tokens: map[token.Hash]*store.Key{}, start: time.Now().AddDate(-1, 0, 0), reports: newReports()}
}

func (s *Store) lock() (unlock func()) {
	s.mu.Lock()
	return s.mu.Unlock
}

// find returns an account, or one without an id if there is none or the
// handle is that of a deleted one.
func (s *Store) find(id string, handle store.Handle) *account {
	a := s.accounts[id]
	if a == nil || handle != 0 && handle != a.handle {
		return new(account)
	}
	return a
}

// Grant implements store.Grants.
func (s *Store) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	defer s.lock()()
	k := s.tokens[hash]
	if k == nil || !k.Live(now) || s.accounts[k.Account].Disabled {
		return store.Grant{}, store.ErrNoGrant
	}
	a := s.accounts[k.Account]
	return store.Grant{
		Account: a.ID, Plan: a.Plan, Key: k.ID, KeyName: k.Name,
		Abilities: strings.Join(k.Abilities, " "), Overrides: a.Overrides,
		Restriction: k.Restriction(), Handle: a.handle,
	}, nil
}

// Confirm implements store.Grants.
func (s *Store) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return s.Grant(ctx, hash, now)
}

// GrantAccount implements store.Grants.
func (s *Store) GrantAccount(_ context.Context, account string, _ bool) (store.Grant, error) {
	defer s.lock()()
	a := s.accounts[account]
	switch {
	case a == nil:
		return store.Grant{}, store.ErrNotFound
	case a.Disabled:
		return store.Grant{}, store.ErrNoGrant
	}
	return store.Grant{Account: a.ID, Plan: a.Plan, Overrides: a.Overrides, Handle: a.handle}, nil
}

// Take implements store.Counter.
func (s *Store) Take(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	defer s.lock()()
	a := s.find(call.Account, call.Handle)
	if a.ID == "" {
		return false, store.ErrNoGrant
	}
	now, cost := s.clock(&call), call.Weight()
	for i, limit := range limits {
		rooms[i] = a.room(&call, limit, now)
	}
	if slices.ContainsFunc(rooms, func(room store.Room) bool { return room.Remaining < cost }) {
		return false, nil
	}
	for _, c := range counters(&call) {
		a.counts[c] += cost
	}
	for i, limit := range limits {
		if limit.Period.IsPace() {
			bucket := a.buckets[paceOf(&call, limit)]
			bucket.Take(limit, now, cost)
			a.buckets[paceOf(&call, limit)] = bucket
		}
		rooms[i] = a.room(&call, limit, now)
	}
	return true, nil
}

// Rooms implements store.Counter.
func (s *Store) Rooms(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	defer s.lock()()
	a := s.find(call.Account, call.Handle)
	if a.ID == "" {
		return store.ErrNoGrant
	}
	for i, limit := range limits {
		rooms[i] = a.room(&call, limit, s.clock(&call))
	}
	return nil
}

// GiveBack implements store.Counter.
func (s *Store) GiveBack(_ context.Context, call store.Call) error {
	defer s.lock()()
	a := s.find(call.Account, call.Handle)
	for _, c := range counters(&call) {
		if a.counts[c] > 0 {
			a.counts[c] = max(0, a.counts[c]-call.Weight())
		}
	}
	return nil
}

// clock returns when the call came by the clock of the buckets.
func (s *Store) clock(call *store.Call) time.Duration { return call.At.Sub(s.start) }

// counters returns the counters of a call.
func counters(call *store.Call) []counter {
	list := []counter{{"", call.Day, call.Endpoint}}
	if call.Key != "" {
		list = append(list, counter{call.Key, call.Day, call.Endpoint})
	}
	return list
}

// holder returns the key of the counters that a limit of a call covers,
// empty for those of the account.
func holder(call *store.Call, limit store.Limit) string {
	if limit.OfKey {
		return call.Key
	}
	return ""
}

func paceOf(call *store.Call, limit store.Limit) pace {
	return pace{holder(call, limit), limit.Endpoint, limit.Period}
}

// room returns what a limit still admits.
func (a *account) room(call *store.Call, limit store.Limit, now time.Duration) store.Room {
	if limit.Period.IsPace() {
		return a.buckets[paceOf(call, limit)].Room(limit, now)
	}
	return store.Room{Remaining: max(0, limit.Max-a.used(call, limit))}
}

// used returns the sum of the counters that a limit of a day or a month
// covers.
func (a *account) used(call *store.Call, limit store.Limit) (sum int64) {
	first, last := call.Day, call.Day
	if limit.Period == store.Month {
		first, last = call.Day.Month()
	}
	for c, used := range a.counts {
		covered := c.endpoint == limit.Endpoint || limit.Endpoint == store.All && c.endpoint != call.Except
		if covered && c.key == holder(call, limit) && first <= c.day && c.day <= last {
			sum += used
		}
	}
	return sum
}

// ChangeAccount implements store.Accounts.
func (s *Store) ChangeAccount(_ context.Context, id string, change func(*store.Account, bool) error) (store.Account, error) {
	defer s.lock()()
	a, exists := s.accounts[id]
	if !exists {
		a = &account{Account: store.Account{ID: id}, counts: map[counter]int64{}, buckets: map[pace]store.Bucket{}}
	}
	changed := a.Account
	changed.Overrides = slices.Clone(a.Overrides) // grants share those of a
	if err := change(&changed, exists); err != nil {
		return store.Account{}, err
	}
	changed.ID = id
	if exists {
		changed.CreatedAt = a.CreatedAt
	} else {
		s.lastHandle++
		a.handle = s.lastHandle
		s.accounts[id] = a
	}
	a.Account = changed
	return changed, nil
}

// ChangeAccounts implements store.Accounts.
func (s *Store) ChangeAccounts(ctx context.Context, ids []string, change func(int, *store.Account, bool) error) ([]store.Account, []error) {
	accounts, errs := make([]store.Account, len(ids)), make([]error, len(ids))
	for i, id := range ids {
		accounts[i], errs[i] = s.ChangeAccount(ctx, id, func(a *store.Account, exists bool) error { return change(i, a, exists) })
	}
	return accounts, errs
}

// Account implements store.Accounts.
func (s *Store) Account(_ context.Context, id string) (store.Account, error) {
	defer s.lock()()
	a := s.find(id, 0)
	if a.ID == "" {
		return store.Account{}, store.ErrNotFound
	}
	return a.Account, nil
}

// ListAccounts implements store.Accounts.
func (s *Store) ListAccounts(_ context.Context, after string, limit int) (list []store.Account, err error) {
	defer s.lock()()
	for _, id := range slices.Sorted(maps.Keys(s.accounts)) {
		if id > after && len(list) < limit {
			list = append(list, s.accounts[id].Account)
		}
	}
	return list, nil
}

// DeleteAccount implements store.Accounts.
func (s *Store) DeleteAccount(_ context.Context, id string) error {
	defer s.lock()()
	if s.accounts[id] == nil {
		return store.ErrNotFound
	}
	delete(s.accounts, id)
	maps.DeleteFunc(s.tokens, func(_ token.Hash, k *store.Key) bool { return k.Account == id })
	return nil
}

// Record implements store.Usage.
func (s *Store) Record(record store.Record) {
	defer s.lock()()
	a := s.find(record.Account, record.Handle)
	if a.ID == "" {
		return
	}
	if k := a.keys.Find(record.Key); k != nil {
		if record.At.After(k.LastUsedAt) {
			k.LastUsedAt, k.LastUsedFrom = record.At, record.From
		}
	}
	record.Handle, record.From, record.Path = 0, netip.Addr{}, store.CutPath(record.Path)
	a.recent = store.LastCalls(slices.Insert(a.recent, 0, record))
}

// Recent implements store.Usage.
func (s *Store) Recent(_ context.Context, account string, now time.Time) (list []store.Record, err error) {
	defer s.lock()()
	for _, record := range s.find(account, 0).recent {
		if !record.At.Before(now.Add(-store.RecentFor)) {
			list = append(list, record)
		}
	}
	return list, nil
}

// Counts implements store.Usage.
func (s *Store) Counts(_ context.Context, account, key string, first, last calendar.Day) (list []store.Count, err error) {
	defer s.lock()()
	for c, used := range s.find(account, 0).counts {
		if used > 0 && c.key == key && first <= c.day && c.day <= last {
			list = append(list, store.Count{Day: c.day, Endpoint: c.endpoint, Used: used})
		}
	}
	return list, nil
}

// ResetCounts implements store.Usage.
func (s *Store) ResetCounts(_ context.Context, account, endpoint string, day calendar.Day) error {
	defer s.lock()()
	maps.DeleteFunc(s.find(account, 0).counts, func(c counter, _ int64) bool {
		return c.day == day && (endpoint == "" || c.endpoint == endpoint)
	})
	return nil
}

// Check implements store.Health.
func (*Store) Check(context.Context) error { return nil }
