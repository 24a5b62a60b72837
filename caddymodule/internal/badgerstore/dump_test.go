package badgerstore_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/memstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// exported returns the items of an export. The sequence ends with its error.
func exported(ctx context.Context, from store.Exporter) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		stop := errors.New("stopped")
		err := from.Export(ctx, func(item store.Item) error {
			if !yield(item, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(store.Item{}, err)
		}
	}
}

// none is an export without items.
func none(func(store.Item, error) bool) {}

func restore(t *testing.T, dir string, from store.Exporter) {
	t.Helper()
	if err := badgerstore.Restore(dir, badgerstore.Options{}, exported(t.Context(), from)); err != nil {
		t.Fatalf("restoring: %v", err)
	}
}

func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// TestRestore: a restored store has everything that an export has, and counts
// from there. So has the copy of a restored store.
func TestRestore(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]store.Store{"badger": open(t, t.TempDir()), "memory": memstore.New()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Fill(t, from)
			want := storetest.Export(t, from)
			first, second := filepath.Join(t.TempDir(), "missing", "gate"), t.TempDir()
			restore(t, first, from)
			s := open(t, first)
			wantSame(t, "the restored store", storetest.Export(t, s), want)
			restore(t, second, s)
			wantSame(t, "the copy", storetest.Export(t, open(t, second)), want)

			key, err := s.FindKey(t.Context(), "key_acc_1_plain")
			if err != nil || key.LastUsedAt.IsZero() || !key.LastUsedFrom.IsValid() {
				t.Errorf("got key %+v, %v, want its last use", key, err)
			}
			for _, item := range storetest.Items(t, from) {
				if item.Key == nil {
					continue
				}
				got, err := s.Grant(t.Context(), item.Key.Hash, now)
				want, wantErr := from.Grant(t.Context(), item.Key.Hash, now)
				if got.Key != want.Key || got.Account != want.Account || !errors.Is(err, wantErr) {
					t.Errorf("grant of %s: got %+v, %v, want %+v, %v", item.Key.ID, got, err, want, wantErr)
				}
			}
			call := store.Call{Account: "acc_1", Endpoint: "convert", Day: today}
			if used, admitted, err := badgerstore.TakeDaily(s, call, 5); used != 5 || !admitted || err != nil {
				t.Errorf("a call after the restore: got %d, %v, %v, want 5", used, admitted, err)
			}
			if used, admitted, err := badgerstore.TakeDaily(s, call, 5); used != 5 || admitted || err != nil {
				t.Errorf("a call above the limit: got %d, %v, %v", used, admitted, err)
			}
			isNew, _, err := s.AddEvent(t.Context(), store.Event{ID: "evt_done", Known: now.Add(time.Hour), Queued: true})
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
	add := map[string]func(*badgerstore.Store) error{
		"account": func(s *badgerstore.Store) error {
			_, err := storetest.PutAccount(t.Context(), s, store.Account{ID: "acc_1"})
			return err
		},
		"count": func(s *badgerstore.Store) error {
			_, err := s.Take(t.Context(), store.Call{Account: "acc_1", Endpoint: "convert", Day: today}, nil, nil)
			return err
		},
		"entry": func(s *badgerstore.Store) error { return s.AddEntries(t.Context(), []store.Entry{{At: now}}) },
		"refused": func(s *badgerstore.Store) error {
			return s.AddRefused(t.Context(), []store.Refused{{Day: today, Calls: 1}})
		},
		"event": func(s *badgerstore.Store) error {
			_, _, err := s.AddEvent(t.Context(), store.Event{ID: "evt_1", Known: now.Add(time.Hour)})
			return err
		},
		"nothing": func(*badgerstore.Store) error { return nil },
	}
	for what, fill := range add {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, err := badgerstore.Open(dir, badgerstore.Options{})
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
			want := storetest.Export(t, s)
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
			wantSame(t, "the store after the refusal", storetest.Export(t, open(t, dir)), want)
		})
	}
}

// TestUnfinishedRestore: Open and Restore refuse a directory while a restore
// runs in it, after one failed, and after a process was killed during it.
func TestUnfinishedRestore(t *testing.T) {
	t.Parallel()
	from, dir, killed := memstore.New(), t.TempDir(), t.TempDir()
	storetest.Fill(t, from)
	failure := errors.New("the file is damaged")
	err := badgerstore.Restore(dir, badgerstore.Options{}, func(yield func(store.Item, error) bool) {
		n := 0
		for item, err := range exported(t.Context(), from) {
			if n++; n == 20 {
				copyStore(t, dir, killed)
				if _, err := badgerstore.Open(dir, badgerstore.Options{}); !errors.Is(err, store.ErrInUse) {
					t.Errorf("opening it during the restore: got %v, want %v", err, store.ErrInUse)
				}
				yield(store.Item{}, failure)
				return
			}
			if !yield(item, err) {
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

// A file that was changed has many calls of one account. It is small when it is
// compressed.
func TestRestoreOfManyCalls(t *testing.T) {
	dir := t.TempDir()
	storetest.RestoreManyCalls(t, func(calls iter.Seq2[store.Item, error]) store.Store {
		if err := badgerstore.Restore(dir, badgerstore.Options{}, calls); err != nil {
			t.Fatal(err)
		}
		return open(t, dir)
	})
}

// TestReportsAfterKill: what a store reported survives the end of its process.
func TestReportsAfterKill(t *testing.T) {
	t.Parallel()
	live, killed := t.TempDir(), t.TempDir()
	s := open(t, live)
	storetest.Fill(t, s)
	want := storetest.Export(t, s)
	copyStore(t, live, killed)
	after := open(t, killed)
	wantSame(t, "after the process was killed", storetest.Export(t, after), want)
	entries := []store.Entry{{At: now.Add(-time.Hour)}}
	list, err := after.ListEntries(t.Context(), "", time.Time{}, store.EntryID{}, 10)
	if failed := after.AddEntries(t.Context(), entries); err != nil || failed != nil || entries[0].ID.Compare(list[len(list)-1].ID) <= 0 {
		t.Errorf("the id of the next entry is %v, %v, the last one before was %v, %v", entries[0].ID, failed, list, err)
	}
}

// TestCloseDuringExport: Close does not wait for the reader of an export.
func TestCloseDuringExport(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	storetest.Fill(t, s)
	closed := make(chan error, 1)
	var once sync.Once
	err := s.Export(t.Context(), func(store.Item) error {
		once.Do(func() {
			go func() { closed <- s.Close() }()
			badgerstore.AwaitStop(s)
		})
		return nil
	})
	if failed := <-closed; !errors.Is(err, store.ErrClosed) || failed != nil {
		t.Errorf("got %v and %v from Close, want %v", err, failed, store.ErrClosed)
	}
}
