package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Export returns the items of a store as sorted texts, and checks that each
// account comes before what belongs to it.
func Export(t testing.TB, s store.Exporter) []string {
	t.Helper()
	var list []string
	for _, item := range Items(t, s) {
		list = append(list, describe(item))
	}
	slices.Sort(list)
	return list
}

// Items returns copies of the items of a store.
func Items(t testing.TB, s store.Exporter) (items []store.Item) {
	t.Helper()
	seen := map[string]bool{}
	err := s.Export(context.Background(), func(item store.Item) error {
		set := 0
		for _, part := range reflect.ValueOf(&item).Elem().Fields() {
			if !part.IsNil() {
				set++
				copied := reflect.New(part.Type().Elem())
				copied.Elem().Set(part.Elem())
				part.Set(copied)
			}
		}
		owner := ""
		switch {
		case set != 1:
			return fmt.Errorf("an item with %d parts", set)
		case item.Account != nil:
			seen[item.Account.ID] = true
		case item.Key != nil:
			owner = item.Key.Account
		case item.Count != nil:
			owner = item.Count.Account
		case item.Call != nil:
			owner = item.Call.Account
		}
		if owner != "" && !seen[owner] {
			return fmt.Errorf("%s comes before its account", describe(item))
		}
		items = append(items, item)
		return nil
	})
	if err != nil {
		t.Fatalf("exporting: %v", err)
	}
	return items
}

// describe returns an item as text, without the claims of an event and the
// end of a known id: these may differ between two stores.
func describe(item store.Item) string {
	if item.Event != nil {
		e := *item.Event
		if !e.Queued {
			e = store.Event{ID: e.ID}
		}
		e.Attempts, e.Due, e.Known = 0, time.Time{}, time.Time{}
		item.Event = &e
	}
	for name, part := range reflect.ValueOf(item).Fields() {
		if !part.IsNil() {
			return fmt.Sprintf("%s %+v", name.Name, part.Elem().Interface())
		}
	}
	return "no part"
}

// Fill adds items of each kind to an empty store.
func Fill(t *testing.T, opened store.Store) { newSuite(t, opened).fill() }

func (s *suite) fill() {
	s.account("acc_1", "acc_2", "acc_empty", "acc_deleted")
	_, err := PutAccount(s.Context(), s.store, store.Account{
		ID: "acc_2", Plan: "business", Label: "Grace Hopper", Disabled: true,
		Overrides: []store.Override{{Limit: store.Limit{Endpoint: "convert", Period: store.Day, Max: 7}, Reason: "trial", CreatedAt: s.now, ExpiresAt: s.now.Add(time.Hour)}},
	})
	s.must(err)
	plain, limited, login := s.newKey("acc_1", "plain"), s.newKey("acc_1", "limited"), s.newKey("acc_2", "login")
	limited.Limits = []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 5}}
	limited.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	login.Kind, login.ExpiresAt = token.Login, s.now.Add(time.Hour)
	revoked, rotated := s.newKey("acc_1", "revoked"), s.newKey("acc_2", "rotated")
	for _, key := range []store.Key{plain, limited, login, revoked, rotated, s.newKey("acc_deleted", "gone")} {
		s.create(key)
	}
	s.must(s.store.RevokeKey(s.Context(), "acc_1", revoked.ID, s.now))
	s.must(s.replace(rotated.ID, s.successor(rotated, "key_next"), s.now.Add(time.Hour)))
	call, ofKey := s.call("acc_1", "convert"), costing(s.call("acc_1", "convert"), 3)
	ofKey.Key = limited.ID
	for _, call := range []store.Call{call, ofKey, on(call, s.today-1), on(ofKey, s.today-40), s.call("acc_2", "rates"), s.call("acc_deleted", "rates")} {
		s.takeList(call, nil, true)
	}
	for i := range 20 {
		record := s.record("acc_1", i-20)
		record.Key, record.From = plain.ID, netip.MustParseAddr("192.0.2.1")
		s.store.Record(record)
	}
	s.must(s.store.DeleteAccount(s.Context(), "acc_deleted"))
	s.must(s.store.AddRefused(s.Context(), []store.Refused{
		{Day: s.today, Account: "acc_1", Endpoint: "convert", Code: "quota_exceeded", Calls: 4},
		{Day: s.today - 300, Endpoint: "convert", Code: "invalid_token", Calls: 2},
	}))
	s.must(s.store.AddEntries(s.Context(), []store.Entry{s.entry("acc_1", -5), s.entry("acc_1", -5), s.entry("", -4)}))
	queued, done, silent := s.event("evt_queued", -5), s.event("evt_done", -4), s.event("evt_silent", -3)
	silent.Queued = false
	for _, event := range []store.Event{queued, done, silent} {
		s.addEvent(event, true)
	}
	s.must(s.store.RemoveEvent(s.Context(), done.ID))
}

// export: an export has everything that the store lists, and nothing of a
// deleted account. A restart changes neither that nor what a token grants.
func (s *suite) export() {
	s.fill()
	_, err := s.store.Recent(s.Context(), "acc_1", s.now) // nothing waits to be written
	s.must(err)
	want, grants := s.listed(), s.grants()
	s.restart()
	items := Items(s, s.store)
	if got := s.grants(); !slices.Equal(got, grants) {
		s.Errorf("grants after a restart:\n got %s\nwant %s", got, grants)
	}
	if got := Export(s, s.store); !slices.Equal(got, want) {
		s.Errorf("export:\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	for _, item := range items {
		if item.Key != nil && item.Key.Hash != hashOf(item.Key.ID) {
			s.Errorf("key %s has the hash of another one", item.Key.ID)
		}
	}
	stop, calls := errors.New("stop"), 0
	err = s.store.Export(s.Context(), func(store.Item) error { calls++; return stop })
	if s.wantError("an error of write", err, stop); calls != 1 {
		s.Errorf("write was called %d times after an error", calls-1)
	}
}

// grants returns what the key of each item grants, as text.
func (s *suite) grants() (list []string) {
	for _, item := range Items(s, s.store) {
		if item.Key != nil {
			grant, err := s.store.Grant(s.Context(), item.Key.Hash, s.now)
			list = append(list, fmt.Sprint(item.Key.ID, grant.Account, grant.Plan, grant.Overrides, grant.Restriction != nil, err))
		}
	}
	slices.Sort(list)
	return list
}

// listed returns what the store lists, as Export does.
func (s *suite) listed() (want []string) {
	add := func(item store.Item) { want = append(want, describe(item)) }
	for _, id := range []string{"evt_done", "evt_silent"} {
		add(store.Item{Event: &store.Event{ID: id}})
	}
	accounts, err := s.store.ListAccounts(s.Context(), "", 100)
	s.must(err)
	for _, a := range accounts {
		add(store.Item{Account: &a})
		keys, err := s.store.ListKeys(s.Context(), a.ID)
		s.must(err)
		for _, k := range keys {
			add(store.Item{Key: &store.StoredKey{Key: k, Hash: hashOf(k.ID)}})
		}
		for _, key := range []string{"", "key_acc_1_limited"} {
			counts, err := s.store.Counts(s.Context(), a.ID, key, s.today-100, s.today)
			s.must(err)
			for _, c := range counts {
				add(store.Item{Count: &store.StoredCount{Account: a.ID, Key: key, Count: c}})
			}
		}
		calls, err := s.store.Recent(s.Context(), a.ID, s.now)
		s.must(err)
		for _, c := range calls {
			add(store.Item{Call: &c})
		}
	}
	refused, err := s.store.ListRefused(s.Context(), "", s.today-400, s.today, store.Refused{}, 100)
	s.must(err)
	for _, r := range refused {
		add(store.Item{Refused: &r})
	}
	entries, err := s.store.ListEntries(s.Context(), "", time.Time{}, store.EntryID{}, 100)
	s.must(err)
	for _, e := range entries {
		add(store.Item{Entry: &e})
	}
	queued := s.event("evt_queued", -5)
	add(store.Item{Event: &queued})
	slices.Sort(want)
	return want
}

// RestoreManyCalls checks that a restore of many calls of one account, in no
// order, keeps the newest of them and needs little memory. It measures the
// heap: do not run it in parallel with other tests.
func RestoreManyCalls(t *testing.T, restore func(items iter.Seq2[store.Item, error]) store.Store) {
	t.Helper()
	const calls, step, most = 200_000, 7919, 8 << 20 // all together have some 40 MB
	now := time.Now().UTC().Truncate(time.Second)
	call := func(n int) store.Record {
		return store.Record{Account: "acc_1", At: now.Add(-time.Duration(n) * time.Millisecond), Endpoint: "convert", Method: "GET", Path: fmt.Sprint("/", n), Status: 200}
	}
	s := restore(func(yield func(store.Item, error) bool) {
		if !yield(store.Item{Account: &store.Account{ID: "acc_1", Plan: "free"}}, nil) {
			return
		}
		before := Heap()
		for i := range calls {
			if record := call(i * step % calls); !yield(store.Item{Call: &record}, nil) {
				return
			}
		}
		if used := Heap() - before; used > most {
			t.Errorf("%d calls take %d bytes of the heap, want at most %d", calls, used, most)
		}
	})
	got, err := s.Recent(t.Context(), "acc_1", now)
	var want []store.Record
	for n := range store.MaxRecent {
		want = append(want, call(n))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("recent calls: got %d, %v, %+v\nwant %d, %+v", len(got), err, got, len(want), want)
	}
}

// Heap returns how much of the heap is in use.
func Heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// exportUnderLoad: an export has every call that was admitted before it, and
// calls are admitted meanwhile.
func (s *suite) exportUnderLoad() {
	const callers, exports = 4, 5
	accounts := []string{"acc_1", "acc_2", "acc_3"}
	s.account(accounts...)
	var admitted [3]atomic.Int64
	var done atomic.Bool
	s.together(callers+1, func(caller int) error {
		if caller < callers {
			for i := caller; !done.Load(); i++ {
				ok, err := s.store.Take(s.Context(), s.call(accounts[i%3], "convert"), nil, nil)
				if err != nil || !ok {
					done.Store(true)
					return cmp.Or(err, errors.New("a call without limits was refused"))
				}
				admitted[i%3].Add(1)
			}
			return nil
		}
		defer done.Store(true)
		for range exports {
			var least [3]int64
			for i := range least {
				least[i] = admitted[i].Load()
			}
			got := map[string]int64{}
			err := s.store.Export(s.Context(), func(item store.Item) error {
				if item.Count != nil {
					got[item.Count.Account] += item.Count.Used
				}
				return nil
			})
			if err != nil {
				return err
			}
			for i, account := range accounts {
				if most := admitted[i].Load() + callers; got[account] < least[i] || got[account] > most {
					return fmt.Errorf("%s: exported %d, want %d to %d", account, got[account], least[i], most)
				}
			}
		}
		return nil
	})
}
