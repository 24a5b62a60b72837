package redisstore_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// manyAccounts need more than one batch of a restore.
const manyAccounts = 600

// fill writes some of all that a store keeps, and returns a call of a key with
// limits of its own.
func fill(t *testing.T, s *gate) store.Call {
	t.Helper()
	storetest.Fill(t, s.redis)
	now := time.Now().UTC().Truncate(time.Millisecond)
	ids := make([]string, manyAccounts)
	for i := range ids {
		ids[i] = fmt.Sprintf("many_%d", i)
	}
	for some := range slices.Chunk(ids, store.MaxBatch) {
		_, errs := s.ChangeAccounts(t.Context(), some, func(i int, a *store.Account, _ bool) error {
			a.Plan, a.Label, a.CreatedAt, a.Disabled = "starter", fmt.Sprintf("%d@example.org", i), now, i == 7
			return nil
		})
		check(t, errors.Join(errs...))
	}
	key := store.Key{
		ID: "key_1", Account: "many_1", Kind: token.Key, Name: "one", Abilities: []string{"convert"}, Hint: "tgk_…", CreatedAt: now,
		ExpiresAt: now.Add(time.Hour), Limits: []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 9, OfKey: true}},
	}
	check(t, s.CreateKey(t.Context(), key, hashOf(key.ID)))
	revoked := store.Key{ID: "key_2", Account: "many_1", Kind: token.Key, Name: "two", CreatedAt: now}
	check(t, s.CreateKey(t.Context(), revoked, hashOf(revoked.ID)))
	check(t, s.RevokeKey(t.Context(), "many_1", revoked.ID, now))
	call := store.Call{Account: "many_1", Endpoint: "convert", Key: key.ID, Day: today(), Cost: 2}
	for range 2 {
		_, err := s.Take(t.Context(), call, nil, nil)
		check(t, err)
	}
	return call
}

// TestRestore: a restored store dumps what was dumped, and counts on.
func TestRestore(t *testing.T) {
	t.Parallel()
	single, cluster := redistest.Start(t), redistest.StartCluster(t, 3)
	for name, url := range map[string]string{"Single": single.URL(), "Cluster": cluster.URL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := redisstore.Options{URL: url, Prefix: "from", Timeout: 10 * time.Second}
			from := openStore(t, o)
			call := fill(t, from)
			list, want := storetest.Pieces(t, from.Book), storetest.Dump(t, from.Book)
			totals, err := from.Totals(t.Context())
			check(t, err)
			o.Prefix = "to"
			check(t, redisstore.Restore(t.Context(), o, all(list, nil)))
			to := openStore(t, o)
			if got := storetest.Dump(t, to.Book); !slices.Equal(got, want) {
				t.Errorf("restored:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			countsOn(t, to, call)
			if got, err := to.Totals(t.Context()); err != nil || got != totals {
				t.Errorf("totals: got %+v, %v, want %+v", got, err, totals)
			}
			key, err := to.FindKey(t.Context(), "key_1")
			if err != nil || key.Account != "many_1" {
				t.Errorf("found %+v, %v", key, err)
			}
			if _, err := to.FindKey(t.Context(), "key_3"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("a key that does not exist: got %v", err)
			}
			if grant, err := to.Grant(t.Context(), hashOf("key_1"), time.Now()); err != nil || grant.Account != "many_1" {
				t.Errorf("grant: got %+v, %v", grant, err)
			}
			if _, err := to.Grant(t.Context(), hashOf("key_2"), time.Now()); !errors.Is(err, store.ErrNoGrant) {
				t.Errorf("grant of a revoked key: got %v", err)
			}
			// An entry that follows comes last.
			check(t, to.AddEntries(t.Context(), store.Entry{At: time.Now().Add(-time.Hour), Account: "many_1", Action: "last"}))
			last, err := to.ListEntries(t.Context(), book.EntryFilter{NewestFirst: true}, store.EntryID{}, 1)
			if err != nil || len(last) != 1 || last[0].Action != "last" {
				t.Errorf("the last entry is %+v, %v", last, err)
			}
		})
	}
}

// countsOn checks that each limit continues from the restored counts.
func countsOn(t *testing.T, s *gate, call store.Call) {
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

// all yields pieces, and then an error if there is one.
func all(list []book.Piece, end error) iter.Seq2[book.Piece, error] {
	return func(yield func(book.Piece, error) bool) {
		for _, piece := range list {
			if !yield(piece, nil) {
				return
			}
		}
		if end != nil {
			yield(book.Piece{}, end)
		}
	}
}

// TestRestoreRefusals: a restore touches neither a store that a gate uses nor
// one with data, and no gate uses one that is not finished.
func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := redisstore.Options{URL: server.URL(), Prefix: "in"}
	list := []book.Piece{{Document: &book.Account{Account: store.Account{ID: account, Plan: "starter"}, Exists: true}}}

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
		for name, write := range map[string]func(s *gate) error{
			"account": func(s *gate) error { return put(t, s, account) },
			"entry": func(s *gate) error {
				check(t, s.AddEntries(t.Context(), store.Entry{At: time.Now(), Account: account}))
				return s.DeleteAccount(t.Context(), account)
			},
			"refused": func(s *gate) error {
				return s.AddRefused(t.Context(), []store.Refused{{Day: today() - 300, Code: "no_token", Calls: 1}})
			},
			"event": func(s *gate) error {
				_, err := event.NewQueue(s.Book).Add(t.Context(), store.Event{ID: "event", At: time.Now(), Known: time.Now().Add(time.Hour)})
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
		if want := `layout "1", this program knows layout "7"`; !errors.Is(err, store.ErrNotEmpty) || !strings.Contains(err.Error(), want) {
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

// A file that was changed has large pieces of all kinds, or many of them.
// Commands are sent before they take much memory.
func TestRestoreOfLargePieces(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, piece := range map[string]func(n int) book.Piece{
		"entries": func(n int) book.Piece {
			return book.Piece{Entry: &book.LogEntry{ID: store.EntryID{Milliseconds: 1, Number: int64(n)}, At: time.Now(), Value: []byte(large)}}
		},
		"rows": func(n int) book.Piece {
			return book.Piece{Space: book.Space{Name: "events"}, Row: &book.Row{Key: fmt.Sprint(n), Value: []byte(large)}}
		},
		"counts": func(n int) book.Piece {
			return book.Piece{Count: &store.StoredCount{Account: account, Count: store.Count{Day: today(), Endpoint: fmt.Sprint(n, large[:1<<10]), Used: 1}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, most := map[string]int{"entries": 100, "rows": 100, "counts": 20_000}[name], 30<<20
			o := redisstore.Options{URL: redistest.Start(t).URL()}
			check(t, redisstore.Restore(t.Context(), o, func(yield func(book.Piece, error) bool) {
				before := storetest.Heap()
				for i := range n {
					if !yield(piece(i), nil) {
						return
					}
				}
				if used := storetest.Heap() - before; used > int64(most) {
					t.Errorf("%d pieces take %d bytes of the heap, want at most %d", n, used, most)
				}
			}))
		})
	}
}
