package badgerstore_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// TestDamage: a damaged store is refused each time it is opened, or complete
// because the damaged data was not needed. It never opens with a part of its
// data.
func TestDamage(t *testing.T) {
	t.Parallel()
	crashed := crashedStore(t)
	flip := func(at func(data []byte) int) func([]byte) []byte {
		return func(data []byte) []byte { data[at(data)] ^= 0x10; return data }
	}
	cut := func(at func(data []byte) int) func([]byte) []byte {
		return func(data []byte) []byte { return data[:at(data)] }
	}
	part := func(n, of int) func([]byte) int {
		return func(data []byte) int { return content(data) * n / of }
	}
	zeros := func(data []byte) []byte {
		from := content(data) / 3
		clear(data[from : from+content(data)/3])
		return data
	}
	begin := func([]byte) int { return 3 }
	end := func(data []byte) int { return content(data) - 1 }
	tests := []struct {
		name, file string
		change     func([]byte) []byte // nil removes the file
		want       string              // "" is either
	}{
		{"manifest missing", "MANIFEST", nil, "refused"},
		{"manifest empty", "MANIFEST", cut(part(0, 1)), "refused"},
		{"manifest without its tables", "MANIFEST", cut(func([]byte) int { return 8 }), "refused"},
		{"manifest cut by a byte", "MANIFEST", cut(end), "refused"},
		{"manifest cut in half", "MANIFEST", cut(part(1, 2)), "refused"},
		{"manifest flipped at its beginning", "MANIFEST", flip(begin), "refused"},
		{"manifest flipped in a length", "MANIFEST", flip(func([]byte) int { return 11 }), "refused"},
		{"manifest flipped", "MANIFEST", flip(part(1, 2)), "refused"},
		{"manifest flipped at its end", "MANIFEST", flip(end), "refused"},
		{"manifest with a torn end", "MANIFEST", func(d []byte) []byte { return append(d, 0, 0, 0, 40, 1, 2) }, "complete"},
		{"table missing", "*.sst", nil, "refused"},
		{"table empty", "*.sst", cut(part(0, 1)), "refused"},
		{"table cut in half", "*.sst", cut(part(1, 2)), "refused"},
		{"table cut by a byte", "*.sst", cut(end), "refused"},
		{"table zeroed in the middle", "*.sst", zeros, "refused"},
		{"table flipped at its beginning", "*.sst", flip(begin), "refused"},
		{"table flipped", "*.sst", flip(part(1, 2)), "refused"},
		{"table flipped at its end", "*.sst", flip(end), "refused"},
		{"count log missing", "*.log", nil, "refused"},
		{"count log empty", "*.log", cut(part(0, 1)), "refused"},
		{"count log header cut", "*.log", cut(begin), "refused"},
		{"count log cut in half", "*.log", cut(part(1, 2)), "refused"},
		{"count log cut by a byte", "*.log", cut(end), "refused"},
		{"count log zeroed in the middle", "*.log", zeros, "refused"},
		{"count log flipped in its header", "*.log", flip(begin), "refused"},
		{"count log flipped at its beginning", "*.log", flip(func([]byte) int { return 34 }), "refused"},
		{"count log flipped", "*.log", flip(part(1, 2)), "refused"},
		{"count log flipped at its end", "*.log", flip(end), "refused"},
		{"log header cut", "*.mem", cut(begin), "refused"},
		{"log cut in half", "*.mem", cut(part(1, 2)), "refused"},
		{"log cut by a byte", "*.mem", cut(end), "refused"},
		{"log zeroed in the middle", "*.mem", zeros, "refused"},
		{"log flipped in its header", "*.mem", flip(begin), "refused"},
		{"log flipped at its beginning", "*.mem", flip(func([]byte) int { return 20 }), "refused"},
		{"log flipped in a length", "*.mem", flip(func([]byte) int { return 23 }), "refused"},
		{"log flipped", "*.mem", flip(part(1, 2)), "refused"},
		{"log flipped at its end", "*.mem", flip(end), "refused"},
		{"value log missing", "*.vlog", nil, "complete"},
		{"value log empty", "*.vlog", cut(part(0, 1)), "complete"},
		{"value log header cut", "*.vlog", cut(begin), "refused"},
		{"value log cut to its header", "*.vlog", cut(func([]byte) int { return 20 }), "complete"},
		{"value log flipped in its header", "*.vlog", flip(begin), "refused"},
		{"value log flipped", "*.vlog", flip(func([]byte) int { return 30 }), "refused"},
		{"value log flipped in its middle", "*.vlog", flip(func(d []byte) int { return len(d) / 2 }), "complete"},
		{"discard statistics missing", "DISCARD", nil, "complete"},
		{"discard statistics cut", "DISCARD", cut(func([]byte) int { return 7 }), "complete"},
		{"discard statistics flipped", "DISCARD", flip(begin), "complete"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			copyStore(t, crashed, dir)
			if test.change != nil {
				change(t, dir, test.file, test.change)
			} else if err := os.Remove(find(t, dir, test.file)); err != nil {
				t.Fatalf("damaging: %v", err)
			}
			first := verdict(t, dir)
			if test.want != "" && first != test.want || first != "refused" && first != "complete" {
				t.Errorf("got %s, want %s", first, test.want)
			}
			if again := verdict(t, dir); first == "refused" && again != first {
				t.Errorf("opened again: got %s, want %s", again, first)
			}
		})
	}
}

// TestRefusalChangesNothing: after the file is repaired, the store is complete.
func TestRefusalChangesNothing(t *testing.T) {
	t.Parallel()
	crashed := crashedStore(t)
	for _, file := range []string{"MANIFEST", "*.sst", "*.mem", "*.log"} {
		dir := t.TempDir()
		copyStore(t, crashed, dir)
		flip := func(data []byte) []byte { data[content(data)/2] ^= 1; return data }
		change(t, dir, file, flip)
		if got := verdict(t, dir); got != "refused" {
			t.Errorf("%s flipped: got %s", file, got)
		}
		change(t, dir, file, flip)
		if got := verdict(t, dir); got != "complete" {
			t.Errorf("%s repaired: got %s", file, got)
		}
	}
}

// TestCrashedStoreOpens opens the sample without damage.
func TestCrashedStoreOpens(t *testing.T) {
	t.Parallel()
	dir := crashedStore(t)
	for range 3 {
		if got := verdict(t, dir); got != "complete" {
			t.Errorf("got %s", got)
		}
	}
}

// TestLeftovers: a directory with any file of a store is refused, also if all
// rows are lost. It is not a new store.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	crashed := crashedStore(t)
	for _, left := range []string{"KEYREGISTRY", "DISCARD", "*.vlog", "*.mem", "*.log"} {
		dir, path := t.TempDir(), find(t, crashed, left)
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(path)), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := verdict(t, dir); got != "refused" {
			t.Errorf("with nothing but %s: got %s", left, got)
		}
	}
}

// TestLogAlone: a log of counts beside an empty database is refused.
func TestLogAlone(t *testing.T) {
	t.Parallel()
	crashed, dir := crashedStore(t), t.TempDir()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatalf("making an empty database: %v", err)
	}
	log := find(t, crashed, "*.log")
	data, err := os.ReadFile(log)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, filepath.Base(log)), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, dir); got != "refused" {
		t.Errorf("got %s", got)
	}
}

// TestUnlistedTable: after a crash between the flush of a memtable and the entry
// of its table in the manifest the store opens, because the log still exists.
// Without the log only the table has the rows, so the store is refused.
func TestUnlistedTable(t *testing.T) {
	t.Parallel()
	crashed, flushed := crashedStore(t), t.TempDir()
	copyStore(t, crashed, flushed)
	db, err := badger.Open(badger.DefaultOptions(flushed).WithLogger(nil).WithMemTableSize(2 << 20).WithValueThreshold(64 << 10).WithCompression(options.None))
	if err != nil {
		t.Fatalf("opening the database alone: %v", err)
	}
	if err := db.Close(); err != nil { // writes its table
		t.Fatalf("closing it: %v", err)
	}
	table := find(t, flushed, "*.sst")
	data, err := os.ReadFile(table)
	if err == nil {
		err = os.WriteFile(filepath.Join(crashed, filepath.Base(table)), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	bare := t.TempDir()
	copyStore(t, crashed, bare)
	if got := verdict(t, crashed); got != "complete" {
		t.Errorf("with the log: got %s", got)
	}
	if err := os.Remove(find(t, bare, "*.mem")); err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, bare); got != "refused" {
		t.Errorf("without the log: got %s", got)
	}
}

// TestLargerMemtable: the log of a memtable that is larger than the current
// size is read.
func TestLargerMemtable(t *testing.T) {
	t.Parallel()
	live, crashed := t.TempDir(), t.TempDir()
	if err := open(t, live).Close(); err != nil {
		t.Fatalf("closing: %v", err)
	}
	db, err := badger.Open(badger.DefaultOptions(live).WithLogger(nil).WithMemTableSize(8 << 20).
		WithValueThreshold(64 << 10).WithValueLogFileSize(16 << 20))
	if err != nil {
		t.Fatalf("opening the database alone: %v", err)
	}
	defer db.Close()
	const rows, size = 100, 60 << 10
	for n := range rows {
		err := db.Update(func(txn *badger.Txn) error { return txn.Set(fmt.Appendf(nil, "l%d", n), make([]byte, size)) })
		if err != nil {
			t.Fatalf("writing: %v", err)
		}
	}
	copyStore(t, live, crashed)
	got := 0
	if err := open(t, crashed).LoadAttempts(t.Context(), func(_, _ []byte) error { got++; return nil }); err != nil || got != rows {
		t.Errorf("got %d rows, %v, want %d", got, err, rows)
	}
}

// TestEmptyLogIsRemoved: after a crash between truncating a log and deleting it
// the store opens.
func TestEmptyLogIsRemoved(t *testing.T) {
	t.Parallel()
	dir := crashedStore(t)
	for _, name := range []string{"00999.mem", "000999.vlog"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := verdict(t, dir); got != "complete" {
		t.Errorf("got %s", got)
	}
}

// TestDamageUnderAnyName: damage is detected in a directory whose name looks
// like a pattern, too.
func TestDamageUnderAnyName(t *testing.T) {
	t.Parallel()
	crashed, dir := crashedStore(t), filepath.Join(t.TempDir(), "data[1]")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	change(t, crashed, "*.mem", func(data []byte) []byte {
		data[40]++ // within the first entry
		return data
	})
	copyStore(t, crashed, dir)
	if got := verdict(t, dir); got != "refused" {
		t.Errorf("got %s", got)
	}
}
