package badgerstore_test

import (
	"context"
	"errors"
	"iter"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// pieces returns the pieces of a book. The sequence ends with its error.
func pieces(ctx context.Context, from *book.Book) iter.Seq2[book.Piece, error] {
	return func(yield func(book.Piece, error) bool) {
		stop := errors.New("stopped")
		err := from.Dump(ctx, func(p book.Piece) error {
			if !yield(p, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(book.Piece{}, err)
		}
	}
}

// none is a dump without pieces.
func none(func(book.Piece, error) bool) {}

func restore(t *testing.T, dir string, from *book.Book) {
	t.Helper()
	if err := badgerstore.Restore(dir, badgerstore.Options{}, pieces(t.Context(), from)); err != nil {
		t.Fatalf("restoring: %v", err)
	}
}

// fractions are the fractions of the second at which a row expires.
var fractions = regexp.MustCompile(`"expires":"([^".]*)\.\d+Z"`)

func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// TestRestore: a restored store has everything that a dump has, and counts
// from there. So has the copy of a restored store.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, engine := range map[string]book.Engine{"badger": open(t, t.TempDir()).Store, "memory": memstore.New()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Fill(t, engine)
			from := storetest.New(engine).Book
			defer from.Close()
			want := storetest.Dump(t, from)
			for i := range want { // Badger has whole seconds
				want[i] = fractions.ReplaceAllString(want[i], `"expires":"${1}Z"`)
			}
			first, second := filepath.Join(t.TempDir(), "missing", "gate"), t.TempDir()
			restore(t, first, from)
			s := open(t, first)
			wantSame(t, "the restored store", storetest.Dump(t, s.Book), want)
			restore(t, second, s.Book)
			wantSame(t, "the copy", storetest.Dump(t, open(t, second).Book), want)

			key, err := s.FindKey(t.Context(), "key_acc_1_plain")
			if err != nil || key.LastUsedAt.IsZero() || !key.LastUsedFrom.IsValid() {
				t.Errorf("got key %+v, %v, want its last use", key, err)
			}
			for _, p := range storetest.Pieces(t, from) {
				if p.Document == nil {
					continue
				}
				for _, k := range p.Document.Keys {
					got, err := s.Grant(t.Context(), k.Hash, now)
					want, wantErr := from.Grant(t.Context(), k.Hash, now)
					if got.Key != want.Key || got.Account != want.Account || !errors.Is(err, wantErr) {
						t.Errorf("grant of %s: got %+v, %v, want %+v, %v", k.ID, got, err, want, wantErr)
					}
				}
			}
			call := store.Call{Account: "acc_1", Endpoint: "convert", Day: today}
			if used, admitted, err := badgerstore.TakeDaily(s.Store, call, 5); used != 5 || !admitted || err != nil {
				t.Errorf("a call after the restore: got %d, %v, %v, want 5", used, admitted, err)
			}
			if used, admitted, err := badgerstore.TakeDaily(s.Store, call, 5); used != 5 || admitted || err != nil {
				t.Errorf("a call above the limit: got %d, %v, %v", used, admitted, err)
			}
			// A new account does not get the counts of a closed one.
			if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_closed", Plan: "starter", CreatedAt: now}); err != nil {
				t.Fatal(err)
			}
			counts, err := s.CountsOfAccounts(t.Context(), []string{"acc_closed"}, today, today)
			closed := map[string]int64{}
			for _, c := range counts {
				closed[c.Key] = c.Used
			}
			if want := map[string]int64{store.Closed: 5, store.ClosedCredited: 2, store.ClosedOverage: 4}; err != nil || !maps.Equal(closed, want) {
				t.Errorf("the new account has %v, %v, want %v", closed, err, want)
			}
			isNew, err := event.NewQueue(s.Book).Add(t.Context(), store.Event{ID: "evt_done", Known: now.Add(time.Hour), Queued: true})
			if err != nil || isNew {
				t.Errorf("a known event: got %v, %v", isNew, err)
			}
		})
	}
}

// TestRestoreRefusals: a restore needs a store without any data that no
// process has open.
func TestRestoreRefusals(t *testing.T) {
	t.Parallel()
	add := map[string]func(badgerstore.TestStore) error{
		"account": func(s badgerstore.TestStore) error {
			_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1"})
			return err
		},
		"count": func(s badgerstore.TestStore) error {
			_, err := s.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: "convert", Day: today}, nil, nil)
			return err
		},
		"entry": func(s badgerstore.TestStore) error {
			return s.ChangeOne(t.Context(), now, "acc_gone", func(a *book.Account) error {
				a.Record(store.Entry{At: now})
				return nil
			})
		},
		"refused": func(s badgerstore.TestStore) error {
			return s.AddRefused(t.Context(), []store.Refused{{Day: today, Calls: 1}})
		},
		"event": func(s badgerstore.TestStore) error {
			_, err := event.NewQueue(s.Book).Add(t.Context(), store.Event{ID: "evt_1", Known: now.Add(time.Hour)})
			return err
		},
		"nothing": func(badgerstore.TestStore) error { return nil },
	}
	for what, fill := range add {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := badgerstore.OpenTest(dir, badgerstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := fill(s); err != nil {
				t.Fatal(err)
			}
			err = badgerstore.Restore(dir, badgerstore.Options{}, none)
			if !errors.Is(err, store.ErrInUse) || !errors.Is(err, badgerstore.ErrInUse) || errors.Is(err, store.ErrNotEmpty) {
				t.Errorf("while it is open: got %v, want %v", err, store.ErrInUse)
			}
			want := storetest.Dump(t, s.Book)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			err = badgerstore.Restore(dir, badgerstore.Options{}, none)
			if what == "nothing" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if !errors.Is(err, store.ErrNotEmpty) {
				t.Errorf("got %v, want %v", err, store.ErrNotEmpty)
			}
			wantSame(t, "the store after the refusal", storetest.Dump(t, open(t, dir).Book), want)
		})
	}
}

// TestUnfinishedRestore: Open and Restore refuse a directory while a restore
// runs in it, after one failed, and after a process was killed during it.
func TestUnfinishedRestore(t *testing.T) {
	t.Parallel()
	engine, dir, killed := memstore.New(), t.TempDir(), t.TempDir()
	storetest.Fill(t, engine)
	from := storetest.New(engine).Book
	defer from.Close()
	failure := errors.New("the file is damaged")
	err := badgerstore.Restore(dir, badgerstore.Options{}, func(yield func(book.Piece, error) bool) {
		n := 0
		for p, err := range pieces(t.Context(), from) {
			if n++; n == 20 {
				copyStore(t, dir, killed)
				if _, err := badgerstore.Open(dir, badgerstore.Options{}); !errors.Is(err, store.ErrInUse) {
					t.Errorf("opening it during the restore: got %v, want %v", err, store.ErrInUse)
				}
				yield(book.Piece{}, failure)
				return
			}
			if !yield(p, err) {
				return
			}
		}
	})
	if !errors.Is(err, failure) {
		t.Errorf("restoring: got %v, want %v", err, failure)
	}
	for what, dir := range map[string]string{"failed": dir, "killed": killed} {
		for range 2 {
			_, err := badgerstore.Open(dir, badgerstore.Options{})
			if err == nil || !strings.Contains(err.Error(), "restore") || strings.Contains(err.Error(), "damaged") {
				t.Errorf("opening after the restore %s: got %v", what, err)
			}
			err = badgerstore.Restore(dir, badgerstore.Options{}, none)
			if err == nil || !strings.Contains(err.Error(), "delete the directory") {
				t.Errorf("restoring after the restore %s: got %v", what, err)
			}
		}
	}
}

// TestReportsAfterKill: what a store reported survives the end of its process.
func TestReportsAfterKill(t *testing.T) {
	t.Parallel()
	live, killed := t.TempDir(), t.TempDir()
	s := open(t, live)
	storetest.Fill(t, s.Store)
	want := storetest.Dump(t, s.Book)
	copyStore(t, live, killed)
	after := open(t, killed)
	wantSame(t, "after the process was killed", storetest.Dump(t, after.Book), want)
	last := func() store.Entry {
		t.Helper()
		list, err := after.ListEntries(t.Context(), book.EntryFilter{NewestFirst: true}, store.EntryID{}, 1)
		if err != nil || len(list) != 1 {
			t.Fatalf("the last entry: %v, %v", list, err)
		}
		return list[0]
	}
	before := last()
	if err := after.AddEntries(t.Context(), store.Entry{Account: "acc_1", Action: "next", At: now.Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if next := last(); next.Action != "next" || next.ID.Compare(before.ID) <= 0 {
		t.Errorf("the next entry is %+v, the last one before was %+v", next, before)
	}
}

// TestCloseDuringDump: Close does not wait for the reader of a dump.
func TestCloseDuringDump(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	storetest.Fill(t, s.Store)
	closed := make(chan error, 1)
	var once sync.Once
	err := s.Dump(t.Context(), nil, func(book.Piece) error {
		once.Do(func() {
			go func() { closed <- s.Close() }()
			badgerstore.AwaitStop(s.Store)
		})
		return nil
	})
	if failed := <-closed; !errors.Is(err, store.ErrClosed) || failed != nil {
		t.Errorf("got %v and %v from Close, want %v", err, failed, store.ErrClosed)
	}
}
