package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// today is in the future of the machine's clock, so that Badger expires no row.
const today calendar.Day = 30000

func openHere(t *testing.T, dir string, o Options) TestStore {
	t.Helper()
	s, err := OpenTest(dir, o)
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

func call(endpoint string, day calendar.Day) store.Call {
	return store.Call{Account: "acc_1", Endpoint: endpoint, Day: day}
}

// take takes a call that has to be admitted.
func take(t *testing.T, s TestStore, c store.Call) {
	t.Helper()
	if admitted, err := s.ledger.Take(c, nil, nil); !admitted || err != nil {
		t.Fatalf("taking %v: %v, %v", c, admitted, err)
	}
}

func wantUsed(t *testing.T, s TestStore, c store.Call, want int64) {
	t.Helper()
	rooms := make([]store.Room, 1)
	if err := s.ledger.Rooms(c, Daily(c.Endpoint, store.Unlimited), rooms); store.Unlimited-rooms[0].Remaining != want || err != nil {
		t.Errorf("%v: got %d, %v, want %d", c, store.Unlimited-rooms[0].Remaining, err, want)
	}
}

// archived is what the archive has of a counter, -1 for nothing.
func archived(t *testing.T, s TestStore, c store.Call) (used int64) {
	t.Helper()
	value, err := s.archive.get(appendCountKey(nil, c.Day, c.Account, c.Endpoint))
	if err == nil && value == nil {
		return -1
	}
	if err == nil {
		used, err = parseCount(value)
	}
	if err != nil {
		t.Fatalf("reading the archive: %v", err)
	}
	return used
}

// endSegment ends the segment of the log, as when it is full, and writes its
// counts to the archive.
func endSegment(t *testing.T, s TestStore) {
	t.Helper()
	if err := s.journal.log.Rotate(); err != nil {
		t.Fatalf("ending a segment: %v", err)
	}
	if err := s.journal.archiveEnded(); err != nil {
		t.Fatalf("moving a segment: %v", err)
	}
}

// TestCommitted: each call is in one commit that is reported, and reporting
// allocates nothing.
func TestCommitted(t *testing.T) {
	var commits, calls int
	s := openHere(t, t.TempDir(), Options{Committed: func(took time.Duration, n int) {
		if took <= 0 || n < 1 {
			t.Errorf("got a commit of %d calls in %v", n, took)
		}
		commits, calls = commits+1, calls+n
	}})
	reported := call("convert", today)
	allocs := testing.AllocsPerRun(1000, func() {
		if _, err := s.ledger.Take(reported, nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 || commits != 1001 || calls != 1001 {
		t.Errorf("got %v allocations for a call, %d commits with %d calls, want none, 1001 and 1001", allocs, commits, calls)
	}
}

// TestFullGroup: the largest group is one record, also with the longest names.
func TestFullGroup(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	const longest = 64 // of an account's id, and of an endpoint's name
	g := &ledger.Group{Counts: make([]ledger.Count, ledger.MaxGroup)}
	for i := range g.Counts {
		g.Counts[i] = ledger.Count{Holder: fmt.Sprintf("%0*d", longest, i), Endpoint: strings.Repeat("e", longest), Day: today, Used: store.Unlimited}
	}
	if err := s.journal.Append(g); err != nil {
		t.Errorf("appending %d counts: %v", len(g.Counts), err)
	}
}

// TestCountsAreArchived: when a segment ends, the last value of each counter is
// written to the archive, and a counter of zero is deleted there.
func TestCountsAreArchived(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	for range 3 {
		take(t, s, call("convert", today))
	}
	take(t, s, call("rates", today))
	if got := archived(t, s, call("convert", today)); got != -1 {
		t.Errorf("before its segment ended the archive has %d", got)
	}
	endSegment(t, s)
	if got := archived(t, s, call("convert", today)); got != 3 {
		t.Errorf("the archive has %d, want 3", got)
	}
	if err := s.ledger.Settle(call("rates", today), nil, nil, 0, false); err != nil {
		t.Fatalf("giving back: %v", err)
	}
	take(t, s, call("convert", today))
	endSegment(t, s)
	if got := archived(t, s, call("convert", today)); got != 4 {
		t.Errorf("the archive has %d, want 4", got)
	}
	if got := archived(t, s, call("rates", today)); got != -1 {
		t.Errorf("the archive has %d of what was given back", got)
	}
}

// TestDayStaysUntilArchived: a day stays in memory until all of its counts are
// in the archive, from which it is read when it is needed again.
func TestDayStaysUntilArchived(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	old := call("convert", today)
	take(t, s, old)
	later := time.Unix(int64(today+30)*86400, 0)
	s.forget(later)
	if !slices.Contains(s.ledger.Days(), today) {
		t.Fatalf("a day was let go while the log had rows of it")
	}
	endSegment(t, s)
	s.forget(later)
	if slices.Contains(s.ledger.Days(), today) {
		t.Errorf("a day that is over stays in memory")
	}
	counts, err := s.Counts(t.Context(), "acc_1", "", today, today)
	if err != nil || len(counts) != 1 || counts[0].Used != 1 {
		t.Errorf("counts of a day that was let go: %v, %v", counts, err)
	}
	take(t, s, old)
	wantUsed(t, s, old, 2)
}

// syncWith replaces a store's way to sync its archive.
func syncWith(s TestStore, sync func() error) {
	s.archive.mu.Lock()
	defer s.archive.mu.Unlock()
	s.archive.sync = sync
	s.archive.broken.Store(nil)
}

// TestArchiveFails: counts that cannot be written to the archive stay in the
// log, also after the store was closed and opened again.
func TestArchiveFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openHere(t, dir, Options{})
	take(t, s, call("convert", today))
	errLost, works := errors.New("pages lost"), s.archive.sync
	syncWith(s, func() error { return errLost })
	if err := s.journal.log.Rotate(); err != nil {
		t.Fatalf("ending a segment: %v", err)
	}
	if err := s.journal.archiveEnded(); !errors.Is(err, errLost) {
		t.Errorf("moving a segment: got %v", err)
	}
	wantUsed(t, s, call("convert", today), 1)
	if !s.journal.holds(today) {
		t.Errorf("the log has given its rows up")
	}
	wantAfterCrash(t, dir, 1)
	syncWith(s, works) // to close it
}

// TestSyncs: a change is synced once, in the log. Calls are synced only with
// Options.Sync.
func TestSyncs(t *testing.T) {
	t.Parallel()
	for _, always := range []bool{false, true} {
		s := openHere(t, t.TempDir(), Options{Sync: always})
		var old []change
		for back := range calendar.Day(30) {
			for _, holder := range []string{"acc_1", ledger.Holder("acc_1", "key_1")} {
				old = append(old, countRow(appendCountKey(nil, today-back-1, holder, "convert"), 7))
			}
		}
		if err := s.archive.write(soon, old...); err != nil {
			t.Fatal(err)
		}
		stopBackground(s)
		log, archive, sync := 0, 0, s.journal.log.DataSync
		s.journal.log.DataSync = func(f *os.File) error { log++; return sync(f) }
		syncWith(s, func() error { archive++; return s.archive.db.Sync() })
		takes := 0
		if always {
			takes = 1
		}
		steps := []struct {
			name string
			want int
			do   func() error
		}{
			{"account", 1, func() error {
				_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter"})
				return err
			}},
			{"account that does not change", 1, func() error {
				return s.ChangeOne(t.Context(), time.Now(), "acc_1", func(*book.Account) error { return nil })
			}},
			{"batch of accounts", 1, func() error {
				ids := make([]string, store.MaxBatch)
				for i := range ids {
					ids[i] = fmt.Sprint("acc_batch_", i)
				}
				_, errs := s.ChangeAccounts(t.Context(), ids, func(_ int, a *store.Account, _ bool) error {
					a.Plan, a.Label = "starter", "Ada Lovelace"
					return nil
				})
				return errors.Join(errs...)
			}},
			{"key", 1, func() error {
				return s.CreateKey(t.Context(), store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key}, [32]byte{1})
			}},
			{"revocation", 1, func() error { return s.RevokeKey(t.Context(), "acc_1", "key_1", time.Now()) }},
			{"call", takes, func() error {
				_, err := s.ledger.Take(call("convert", today), Daily("convert", 100), make([]store.Room, 1))
				return err
			}},
			{"call of a key", takes, func() error {
				ofKey := call("convert", today)
				ofKey.Key = "key_1"
				_, err := s.Take(t.Context(), ofKey, nil, nil)
				return err
			}},
			{"credit", 1, func() error {
				return s.Credit(t.Context(), "acc_1", []string{"key_1"}, today, "convert", 1)
			}},
			{"credit of a day that is not in memory", 1, func() error {
				return s.Credit(t.Context(), "acc_1", []string{"key_1"}, today-1, "convert", 1)
			}},
			{"call of a key again", takes, func() error {
				ofKey := call("convert", today)
				ofKey.Key = "key_1"
				_, err := s.Take(t.Context(), ofKey, nil, nil)
				return err
			}},
			{"login attempt", 0, func() error {
				return s.Save(t.Context(), []login.Row{{Key: []byte("ip"), Value: []byte("row"), ExpiresAt: time.Now().Add(time.Hour)}})
			}},
			{"refused change", 0, func() error {
				row := book.Write{Row: book.Row{Key: "row"}, Check: true, Old: []byte("other")}
				err := s.ChangeOne(t.Context(), time.Now(), "acc_1", func(a *book.Account) error { a.Rows = []book.Write{row}; return nil })
				if !errors.Is(err, store.ErrExists) {
					return fmt.Errorf("got %w", err)
				}
				return nil
			}},
			// The counts of its keys on days in memory are deleted with one write,
			// and those of all other days with another one.
			{"deletion", 3, func() error { return s.DeleteAccount(t.Context(), "acc_1") }},
		}
		for _, step := range steps {
			log, archive = 0, 0
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			if archive > 0 || log != step.want {
				t.Errorf("%s, sync %v: got %d syncs of the archive and %d of the log, want 0 and %d", step.name, always, archive, log, step.want)
			}
		}
	}
}

// TestLogDoesNotWriteOver: when the store opens after a crash, a row that the log has
// is not written over a newer one, which may be lost with the power.
func TestLogDoesNotWriteOver(t *testing.T) {
	t.Parallel()
	dir, crashed := t.TempDir(), t.TempDir()
	s := openHere(t, dir, Options{})
	key := attemptKey([]byte("ip"))
	for _, err := range []error{
		s.archive.write(durable, change{key: key}), s.archive.write(soon, change{key: key, value: []byte("new")}),
		s.FlushForTest(), os.CopyFS(crashed, os.DirFS(dir)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if value, err := openHere(t, crashed, Options{}).archive.get(key); string(value) != "new" {
		t.Errorf("got %q, %v", value, err)
	}
}

// TestLogHasAllOfARow: when Badger has lost the last rows, they are read from the log:
// values, also empty ones, deletions, the times they expire, and the newest of several.
func TestLogHasAllOfARow(t *testing.T) {
	t.Parallel()
	dir, older, crashed := t.TempDir(), t.TempDir(), t.TempDir()
	s := openHere(t, dir, Options{})
	row := func(name, value string) change { return change{key: attemptKey([]byte(name)), value: []byte(value)} }
	expiring := row("expiring", "v")
	expiring.expires = time.Now().Add(time.Hour).Truncate(time.Second)
	deleted := change{key: row("deleted", "").key}
	const log = "00001.mem"
	for _, err := range []error{
		s.archive.write(durable, row("deleted", "old")), os.CopyFS(older, os.DirFS(dir)),
		s.archive.write(durable, deleted, row("empty", ""), row("newest", "1"), expiring), s.archive.write(logged, row("newest", "2")),
		os.CopyFS(crashed, os.DirFS(dir)), os.Rename(filepath.Join(older, log), filepath.Join(crashed, log)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for _, c := range []change{deleted, row("empty", ""), expiring, row("newest", "")} {
		keys = append(keys, string(c.key))
	}
	rows, err := openHere(t, crashed, Options{}).archive.current(keys)
	if err != nil {
		t.Fatal(err)
	}
	if rows[0].value != nil || rows[1].value == nil || !rows[2].expires.Equal(expiring.expires) || string(rows[3].value) != "2" {
		t.Errorf("got %v", rows)
	}
}

// TestRowOnlyInTheLog: when Badger does not take a row that the log has, nothing else is
// written and no call admitted until the store is opened again. Then the row is there.
func TestRowOnlyInTheLog(t *testing.T) {
	t.Parallel()
	dir, crashed := t.TempDir(), t.TempDir()
	s, err := OpenTest(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	row := change{key: attemptKey([]byte("ip")), value: []byte("v")}
	take(t, s, call("convert", today)) // the day is in memory
	stopBackground(s)
	err = os.CopyFS(crashed, os.DirFS(dir))
	if err = errors.Join(err, s.archive.db.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.archive.write(durable, row); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("writing: got %v", err)
	}
	if _, err := s.ledger.Take(call("convert", today), nil, nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("then a call gets %v", err)
	}
	const log = "0000000001.log"
	if err := s.journal.log.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, log), filepath.Join(crashed, log)); err != nil {
		t.Fatal(err)
	}
	if value, err := openHere(t, crashed, Options{}).archive.get(row.key); string(value) != "v" {
		t.Errorf("opened again: got %q, %v", value, err)
	}
}

// TestExpiredRowIsKept: a row that is past its time when its segment is archived is
// there again when the clock was wrong.
func TestExpiredRowIsKept(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	key := string(attemptKey([]byte("ip")))
	if err := s.archive.write(logged, change{key: []byte(key), value: []byte("old"), expires: time.Now().Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	rows, err := s.archive.current([]string{key, key + "2"})
	if err != nil || string(rows[0].value) != "old" || rows[0].expires.IsZero() || rows[1].value != nil {
		t.Errorf("got %+v, %v", rows, err)
	}
}

// TestLargeWrite: rows that exceed a transaction of Badger are written in
// several.
func TestLargeWrite(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	const rows = 40000
	changes := make([]change, rows)
	for i := range changes {
		changes[i] = change{key: attemptKey([]byte{byte(i), byte(i >> 8), 7}), value: make([]byte, 50)}
	}
	if err := s.archive.write(soon, changes...); err != nil {
		t.Fatalf("writing: %v", err)
	}
	got := 0
	if err := s.LoadAttempts(t.Context(), func(_, _ []byte) error { got++; return nil }); err != nil || got != rows {
		t.Errorf("got %d rows, %v, want %d", got, err, rows)
	}
}

// TestRowTooLarge: a row for the value log, which has no garbage collection, is
// refused.
func TestRowTooLarge(t *testing.T) {
	t.Parallel()
	s := openHere(t, t.TempDir(), Options{})
	write := func(size int) error {
		return s.archive.write(soon, change{key: []byte("l1"), value: make([]byte, size)})
	}
	if err := write(maxValue - 1); err != nil {
		t.Errorf("the largest row: %v", err)
	}
	if err := write(maxValue); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a row too large: got %v", err)
	}
}

// TestChangesAreWrittenAgain: the rows of a segment of the log are in Badger again,
// as they are now, and synced, before the segment is removed.
func TestChangesAreWrittenAgain(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		s := openHere(t, t.TempDir(), Options{Reserve: 1})
		stopBackground(s)
		key, gone := attemptKey([]byte("row")), attemptKey([]byte("gone"))
		old := change{key: key, value: []byte("old")}
		row := change{key: key, value: []byte("new"), expires: time.Now().Add(time.Hour)}
		for _, c := range []change{{key: gone, value: []byte("old")}, old, row, {key: gone}} {
			if err := s.archive.write(durable, c); err != nil {
				t.Fatal(err)
			}
		}
		before := s.archive.db.MaxVersion()
		if fails {
			_ = s.journal.log.Fail(errors.New("disk is lost"))
		}
		if err := s.journal.finish(); err != nil {
			t.Fatal(err)
		}
		err := s.archive.view(func(txn *badger.Txn) error {
			for _, key := range [][]byte{key, gone} {
				it := txn.NewKeyIterator(key, badger.IteratorOptions{AllVersions: true})
				if it.Rewind(); !it.Valid() {
					t.Fatalf("log fails %v: %q is not in Badger", fails, key)
				}
				if it.Item().Version() <= before || it.Item().IsDeletedOrExpired() != bytes.Equal(key, gone) {
					t.Errorf("log fails %v: %q is not written again as it was", fails, key)
				}
				if at := it.Item().ExpiresAt(); bytes.Equal(key, row.key) && at != row.expiresAt() {
					t.Errorf("log fails %v: the row expires at %d, want %d", fails, at, row.expiresAt())
				}
				it.Close()
			}
			return nil
		})
		if err != nil || s.archive.dirty || s.journal.log.Ended() != nil || len(s.journal.changed) > 0 {
			t.Errorf("log fails %v: %v; something is not synced or not removed", fails, err)
		}
	}
}
