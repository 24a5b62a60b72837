package redisstore_test

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// manyAccounts need more than one batch of a restore.
const manyAccounts = 600

// fill writes some of all that a store keeps, and returns a call of a key with
// limits of its own.
func fill(t *testing.T, s *redisstore.Store) store.Call {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	ids := make([]string, manyAccounts)
	for i := range ids {
		ids[i] = fmt.Sprintf("acc_%d", i)
	}
	_, errs := s.ChangeAccounts(t.Context(), ids, func(i int, a *store.Account, _ bool) error {
		a.Plan, a.Label, a.CreatedAt, a.Disabled = "starter", fmt.Sprintf("%d@example.org", i), now, i == 7
		return nil
	})
	check(t, errors.Join(errs...))
	key := store.Key{
		ID: "key_1", Account: account, Kind: token.Key, Name: "one", Abilities: []string{"convert"}, Hint: "tgk_…", CreatedAt: now,
		ExpiresAt: now.Add(time.Hour), Limits: []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 9, OfKey: true}},
	}
	check(t, s.CreateKey(t.Context(), key, hashOf(key.ID)))
	revoked := store.Key{ID: "key_2", Account: account, Kind: token.Key, Name: "two", CreatedAt: now}
	check(t, s.CreateKey(t.Context(), revoked, hashOf(revoked.ID)))
	check(t, s.RevokeKey(t.Context(), account, revoked.ID, now))
	call := store.Call{Account: account, Endpoint: "convert", Key: key.ID, Day: today(), Cost: 2}
	for _, c := range []store.Call{call, call, {Account: account, Endpoint: "rates", Day: today() - 40}, {Account: "acc_5", Endpoint: "rates", Day: today()}} {
		_, err := s.Take(t.Context(), c, nil, nil)
		check(t, err)
	}
	for i := range 3 {
		s.Record(store.Record{Account: account, Key: key.ID, At: now.Add(time.Duration(i) * time.Second), Endpoint: "convert", Status: 200, From: netip.MustParseAddr("192.0.2.1")})
	}
	check(t, s.AddRefused(t.Context(), []store.Refused{{Day: today(), Code: "no_token", Calls: 4}, {Day: today() - 1, Account: account, Code: "quota_exceeded", Calls: 1}}))
	check(t, s.AddEntries(t.Context(), []store.Entry{{At: now, ActorKind: "admin", Action: "key.create", Account: account, After: []byte("{}")}, {At: now, ActorKind: "admin", Action: "key.revoke"}}))
	addEvent(t, s, event(1, now))
	addEvent(t, s, event(2, now))
	check(t, s.RetryEvent(t.Context(), "event_2", now.Add(time.Hour)))
	known := event(3, now)
	known.Queued = false
	addEvent(t, s, known)
	return call
}

// TestRestore: a restored store exports what was exported, and counts on.
func TestRestore(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for name, url := range map[string]string{"Single": single.URL(), "Cluster": cluster.URL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := redisstore.Options{URL: url, Prefix: "from", Timeout: 10 * time.Second}
			from := openStore(t, o)
			call := fill(t, from)
			list, want := storetest.Items(t, from), storetest.Export(t, from)
			o.Prefix = "to"
			check(t, redisstore.Restore(t.Context(), o, all(list, nil)))
			to := openStore(t, o)
			if got := storetest.Export(t, to); !slices.Equal(got, want) {
				t.Errorf("restored:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			countsOn(t, to, call)
			claimed, err := to.ClaimEvents(t.Context(), time.Now(), time.Minute, 9)
			if err != nil || len(claimed) != 1 || claimed[0].ID != "event_1" {
				t.Errorf("claimed %+v, %v, want the event that is due now", claimed, err)
			}
			totals, err := to.Totals(t.Context())
			if err != nil || totals != (store.Totals{Accounts: manyAccounts, LiveKeys: 1}) {
				t.Errorf("totals: got %+v, %v", totals, err)
			}
			key, err := to.FindKey(t.Context(), "key_1")
			if err != nil || key.Account != account || key.LastUsedFrom.String() != "192.0.2.1" {
				t.Errorf("found %+v, %v", key, err)
			}
			if _, err := to.FindKey(t.Context(), "key_3"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a key that does not exist: got %v", err)
			}
			if grant, err := to.Grant(t.Context(), hashOf("key_1"), time.Now()); err != nil || grant.Account != account {
				t.Errorf("grant: got %+v, %v", grant, err)
			}
			if _, err := to.Grant(t.Context(), hashOf("key_2"), time.Now()); !errors.Is(err, store.ErrNoGrant) {
				t.Errorf("grant of a revoked key: got %v", err)
			}
		})
	}
}

// countsOn checks that each limit continues from the restored counts.
func countsOn(t *testing.T, s *redisstore.Store, call store.Call) {
	t.Helper()
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: 7}, {Endpoint: "convert", Period: store.Month, Max: 7},
		{Endpoint: store.All, Period: store.Day, Max: 7}, {Endpoint: store.All, Period: store.Month, Max: 7},
		{Endpoint: "convert", Period: store.Day, Max: 7, OfKey: true},
	}
	rooms := make([]store.Room, len(limits))
	for _, want := range []bool{true, false} {
		admitted, err := s.Take(t.Context(), call, limits, rooms)
		check(t, err)
		if admitted != want {
			t.Errorf("admitted %t, want %t", admitted, want)
		}
		for i, room := range rooms {
			if room.Remaining != 1 {
				t.Errorf("%+v has room for %d, want 1", limits[i], room.Remaining)
			}
		}
	}
}

// all yields items, and then an error if there is one.
func all(list []store.Item, end error) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for _, item := range list {
			if !yield(item, nil) {
				return
			}
		}
		if end != nil {
			yield(store.Item{}, end)
		}
	}
}

// TestRestoreRefusals: a restore touches neither a store that a gate uses nor
// one with data, and no gate uses one that is not finished.
func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := redisstore.Options{URL: server.URL(), Prefix: "in"}
	list := []store.Item{{Account: &store.Account{ID: account, Plan: "starter"}}}

	t.Run("InUse", func(t *testing.T) {
		t.Parallel()
		o := o
		o.Prefix = "used"
		s := openStore(t, o)
		if err := redisstore.Restore(t.Context(), o, all(list, nil)); !errors.Is(err, store.ErrInUse) {
			t.Errorf("got %v, want %v", err, store.ErrInUse)
		}
		check(t, s.Check(t.Context()))
		check(t, s.Close())
		do(t, server, "DEL", o.Prefix+":check") // a gate uses the data
		check(t, redisstore.Restore(t.Context(), o, all(list, nil)))
	})
	t.Run("NotEmpty", func(t *testing.T) {
		t.Parallel()
		for name, write := range map[string]func(s *redisstore.Store) error{
			"account": func(s *redisstore.Store) error { return put(t, s, account) },
			"entry":   func(s *redisstore.Store) error { return s.AddEntries(t.Context(), []store.Entry{{At: time.Now()}}) },
			"refused": func(s *redisstore.Store) error {
				return s.AddRefused(t.Context(), []store.Refused{{Day: today() - 300, Code: "no_token", Calls: 1}})
			},
			"event": func(s *redisstore.Store) error {
				_, _, err := s.AddEvent(t.Context(), event(1, time.Now()))
				return err
			},
		} {
			o := o
			o.Prefix = name
			s := openStore(t, o)
			check(t, write(s))
			check(t, s.Close())
			do(t, server, "DEL", name+":check")
			if err := redisstore.Restore(t.Context(), o, all(list, nil)); !errors.Is(err, store.ErrNotEmpty) {
				t.Errorf("%s: got %v, want %v", name, err, store.ErrNotEmpty)
			}
			openStore(t, o)
		}
	})
	t.Run("Layout", func(t *testing.T) {
		t.Parallel()
		o := o
		o.Prefix = "layout"
		do(t, server, "SET", "layout:layout", "1")
		err := redisstore.Restore(t.Context(), o, all(list, nil))
		if want := `layout "1", this program knows layout "2"`; !errors.Is(err, store.ErrNotEmpty) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %v with %s", err, store.ErrNotEmpty, want)
		}
	})
	t.Run("Unfinished", func(t *testing.T) {
		t.Parallel()
		o := o
		o.Prefix = "unfinished"
		bad := errors.New("damaged file")
		if err := redisstore.Restore(t.Context(), o, all(list, bad)); !errors.Is(err, bad) {
			t.Errorf("got %v, want %v", err, bad)
		}
		refuses(t, openAny(t, o), `delete all keys that begin with "unfinished:" and restore again`)
		if err := redisstore.Restore(t.Context(), o, all(list, nil)); !errors.Is(err, store.ErrNotEmpty) {
			t.Errorf("a second restore: got %v, want %v", err, store.ErrNotEmpty)
		}
		do(t, server, "DEL", "unfinished:layout", "unfinished:accounts", "unfinished:{"+account+"}:a")
		check(t, redisstore.Restore(t.Context(), o, all(list, nil)))
	})
}

// A file that was changed has many calls of one account. It is small when it is
// compressed.
func TestRestoreOfManyCalls(t *testing.T) {
	o := redisstore.Options{URL: redistest.Start(t).URL()}
	storetest.RestoreManyCalls(t, func(calls iter.Seq2[store.Item, error]) store.Store {
		check(t, redisstore.Restore(t.Context(), o, calls))
		return openStore(t, o)
	})
}

// A file that was changed has large rows of all kinds, or many counts of one
// account. Commands are sent before they take much memory.
func TestRestoreOfLargeRows(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, item := range map[string]func(n int) store.Item{
		"entries": func(n int) store.Item {
			return store.Item{Entry: &store.Entry{ID: store.EntryID{Milliseconds: 1, Number: int64(n)}, At: time.Now(), Target: large}}
		},
		"counts": func(n int) store.Item {
			return store.Item{Count: &store.StoredCount{Account: account, Count: store.Count{Day: today(), Endpoint: fmt.Sprint(n, large[:1<<10]), Used: 1}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, most := map[string]int{"entries": 100, "counts": 20_000}[name], 30<<20
			o := redisstore.Options{URL: redistest.Start(t).URL()}
			check(t, redisstore.Restore(t.Context(), o, func(yield func(store.Item, error) bool) {
				before := storetest.Heap()
				for i := range n {
					if !yield(item(i), nil) {
						return
					}
				}
				if used := storetest.Heap() - before; used > int64(most) {
					t.Errorf("%d rows take %d bytes of the heap, want at most %d", n, used, most)
				}
			}))
		})
	}
}
