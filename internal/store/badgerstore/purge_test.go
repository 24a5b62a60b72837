package badgerstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// purgeAt runs a round of a purger whose clock is set.
func purgeAt(t *testing.T, s *Store, now time.Time) {
	t.Helper()
	p := newPurger(s.archive, func() time.Time { return now })
	p.due = now
	for more := true; more; more = p.next != nil {
		if err := p.step(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestYears writes the counts, refused calls and audit entries of 1600 days, 17
// MiB for the 400 days that are kept. The size of the tables is level.
// To the clock of this machine no row expires, so that only the purge deletes
// them.
func TestYears(t *testing.T) {
	t.Parallel()
	if !storetest.Long() {
		t.Skip("it tells something only with many rows: with --long")
	}
	const rounds, purges, days, counts, most = 16, 4, 25, 1000, 60 << 20
	s, err := Open(t.TempDir(), Options{Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	sizes := make([]int64, rounds)
	for round := range rounds {
		for range purges {
			for range days {
				now = now.Add(24 * time.Hour)
				if err := s.archive.write(soon, rowsOfDay(now, counts)...); err != nil {
					t.Fatal(err)
				}
			}
			purgeAt(t, s, now)
		}
		awaitCompaction(t, s)
		sizes[round] = sizeOfTables(t, s.disk.dir)
	}
	t.Log(sizes)
	if slices.Max(sizes) > most {
		t.Errorf("the tables grow: %v bytes, want at most %d", sizes, most)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func rowsOfDay(at time.Time, counts int) (rows []change) {
	day := calendar.UTCDay(at)
	for i := range counts {
		account := fmt.Sprintf("acc_%020d", i)
		rows = append(rows, countRow(appendCountKey(nil, day, account, "convert"), uint64(i+1)))
		if i%10 == 0 {
			rows = append(rows,
				change{
					key:   rowKey(book.Space{Name: "refused " + day.String()}, account+"\x00convert\x00quota_exceeded"),
					value: []byte{1, 1}, expires: (day + store.ReportsFor + 1).UTC(),
				},
				entryChange(&book.LogEntry{ID: store.EntryID{Milliseconds: at.UnixMilli(), Number: int64(i)}, Value: make([]byte, 60)}))
		}
	}
	return rows
}

// awaitCompaction waits until Badger has nothing to merge.
func awaitCompaction(t *testing.T, s *Store) {
	t.Helper()
	busy := func(l badger.LevelInfo) bool { return l.Score >= 1 && l.Level < len(s.archive.db.Levels())-1 }
	for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(s.archive.db.Levels(), busy); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("Badger still merges: %s", s.archive.db.LevelsToString())
		}
	}
}

// sizeOfTables returns the size of the tables in a directory.
func sizeOfTables(t *testing.T, dir string) (size int64) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil { // else a compaction has deleted it
			size += info.Size()
		}
	}
	return size
}

// TestPurge: rows of every kind that are past their time are deleted, those
// that Badger hides too, and no others. A round that was interrupted is
// repeated, and a row that is written again meanwhile stays.
func TestPurge(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	hidden, gone, close, ahead := now.Add(-clockAhead-time.Hour), now.Add(30*24*time.Hour), now.Add(61*24*time.Hour), now.Add(365*24*time.Hour)
	then := now.Add(62 * 24 * time.Hour) // less than clockAhead after close
	var want [][]byte
	step := 256
	if storetest.Long() {
		step = purgeRows
	}
	many := step*3/2 + 1 // more than a step
	prefixes := []byte{prefixMeta, prefixCount, prefixRow, prefixAttempt, prefixSpace, prefixEntry}
	for _, prefix := range prefixes {
		var rows []change
		for i := range many {
			key := binary.BigEndian.AppendUint32([]byte{prefix}, uint32(i))
			row := change{key: key, value: []byte{1}, expires: gone}
			switch {
			case i < many/3:
				row.expires = hidden
			case i == many-2:
				row.expires = close
			case i == many-1:
				row.expires = ahead
			}
			if i >= many-2 {
				want = append(want, key)
			}
			rows = append(rows, row)
		}
		if err := s.archive.write(soon, rows...); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.rowsForTest(t); len(got) != len(prefixes)*many {
		t.Fatalf("got %d rows, want %d", len(got), len(prefixes)*many)
	}
	interrupted := &purger{archive: s.archive, now: func() time.Time { return then }, rows: step, due: then}
	for range 3 {
		if err := interrupted.step(); err != nil {
			t.Fatal(err)
		}
	}
	if left := len(s.rowsForTest(t)); left < len(prefixes)*many-3*step || left >= len(prefixes)*many {
		t.Errorf("after three steps %d rows of %d are left", left, len(prefixes)*many)
	}
	again := []byte{prefixRow, 0, 0, 0, 1}
	expired, _, err := s.archive.expired([]byte{prefixRow}, then.Add(-clockAhead), step)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.archive.write(soon, change{key: again, value: []byte{1}, expires: ahead}); err != nil {
		t.Fatal(err)
	}
	if err := s.archive.deleteExpired(expired, then.Add(-clockAhead)); err != nil {
		t.Fatal(err)
	}
	purgeAt(t, s, then)
	want = append(want, again)
	got := s.rowsForTest(t)
	slices.SortFunc(want, bytes.Compare)
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("got %d rows %q, want %q", len(got), got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestPurgeIsDue: the first round begins an hour after the store opens, the next
// ones a day after the one before, also after a step of the clock.
func TestPurgeIsDue(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p := newPurger(s.archive, func() time.Time { return now })
	rounds := func(after time.Duration) (n int) {
		for end := now.Add(after); now.Before(end); now = now.Add(10 * time.Minute) {
			due := p.due
			if err := p.step(); err != nil {
				t.Fatal(err)
			}
			for p.next != nil {
				if err := p.step(); err != nil {
					t.Fatal(err)
				}
			}
			if p.due != due {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{50 * time.Minute, 0}, {20 * time.Minute, 1}, {23 * time.Hour, 0}, {10 * 24 * time.Hour, 10}} {
		if got := rounds(c.after); got != c.want {
			t.Errorf("got %d rounds in %v, want %d", got, c.after, c.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// rowsForTest returns the keys of the rows with a time, also of those that
// Badger hides.
func (s *Store) rowsForTest(t *testing.T) (keys [][]byte) {
	t.Helper()
	err := s.archive.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.AllVersions = true
		it := txn.NewIterator(o)
		defer it.Close()
		var last []byte
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if bytes.Equal(item.Key(), last) {
				continue
			}
			last = item.KeyCopy(last)
			if item.ExpiresAt() != 0 {
				keys = append(keys, item.KeyCopy(nil))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestPurgeAfterAStepOfTheClock: a clock that is a year ahead for a moment
// deletes no key that is valid on the right day.
func TestPurgeAfterAStepOfTheClock(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { check(s.Close()) })
	began := time.Now()
	row := change{key: []byte{prefixCount, 1}, value: []byte("x"), expires: began.Add(30 * 24 * time.Hour)}
	check(s.archive.write(soon, row))
	now := began
	p := newPurger(s.archive, func() time.Time { return now })
	left := func() int {
		t.Helper()
		for range 3 {
			check(p.step())
		}
		return len(s.rowsForTest(t))
	}
	now = storetest.Step(began.Add(2*time.Hour), 365*24*time.Hour)
	if n := left(); n != 1 {
		t.Error("after the step the row is deleted")
	}
	now = began.Add(3 * time.Hour)
	if n := left(); n != 1 {
		t.Error("after the step back the row is deleted")
	}
	now = began.Add(40 * 24 * time.Hour)
	if n := left(); n != 0 {
		t.Error("after 40 days the row is there")
	}
}
