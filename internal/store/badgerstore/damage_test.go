package badgerstore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// try damages a file of a copy, or removes it if change is nil. It returns the
// verdict, which is the same when the copy is opened again. A refusal takes
// little memory: Badger reads lengths before it verifies a checksum. Tests that
// use it do not run beside others.
func try(t *testing.T, crashed, file string, change func([]byte) []byte) (got string) {
	t.Helper()
	dir := t.TempDir()
	copyStore(t, crashed, dir)
	path := find(t, dir, file)
	if change == nil {
		if err := os.Remove(path); err != nil {
			t.Fatalf("damaging: %v", err)
		}
	} else {
		rewrite(t, path, change)
	}
	cost := allocated(func() { got = verdict(t, dir) })
	if got != "refused" {
		return got
	}
	if cost > maxCost {
		t.Errorf("the refusal took %d MiB", cost>>20)
	}
	if again := verdict(t, dir); again != got {
		t.Errorf("opened again: got %s", again)
	}
	return got
}

// maxCost is how much memory a refusal may allocate, in bytes. On a system of 32
// bits, the builder of a table allocates 32 MiB.
const maxCost = 128 << 20

// allocated is how much memory fn allocates. It is right only while nothing
// else runs.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestDamage: a damaged store is refused each time it is opened, or complete
// because the damaged data was not needed. It never opens with a part of its
// data.
func TestDamage(t *testing.T) {
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
	behind := func(b byte) func([]byte) []byte {
		return func(data []byte) []byte { return append(data, bytes.Repeat([]byte{b}, 64)...) }
	}
	at := func(n int) func([]byte) int { return func([]byte) int { return n } }
	end := func(data []byte) int { return content(data) - 1 }
	for _, test := range []struct {
		name, file string
		change     func([]byte) []byte // nil removes the file
		want       string
	}{
		{"nothing", "MANIFEST", func(d []byte) []byte { return d }, "complete"},
		{"manifest missing", "MANIFEST", nil, "refused"},
		{"manifest empty", "MANIFEST", cut(part(0, 1)), "refused"},
		{"manifest without its tables", "MANIFEST", cut(at(8)), "refused"},
		{"manifest cut by a byte", "MANIFEST", cut(end), "refused"},
		{"manifest cut in half", "MANIFEST", cut(part(1, 2)), "refused"},
		{"manifest flipped at its beginning", "MANIFEST", flip(at(3)), "refused"},
		{"manifest flipped in a length", "MANIFEST", flip(at(11)), "refused"},
		{"manifest flipped", "MANIFEST", flip(part(1, 2)), "refused"},
		{"manifest flipped at its end", "MANIFEST", flip(end), "refused"},
		{"manifest with a torn end", "MANIFEST", func(d []byte) []byte { return append(d, 0, 0, 0, 40, 1, 2) }, "complete"},
		{"table missing", "*.sst", nil, "refused"},
		{"table empty", "*.sst", cut(part(0, 1)), "refused"},
		{"table cut in half", "*.sst", cut(part(1, 2)), "refused"},
		{"table cut by a byte", "*.sst", cut(end), "refused"},
		{"table zeroed in the middle", "*.sst", zeros, "refused"},
		{"table flipped at its beginning", "*.sst", flip(at(3)), "refused"},
		{"table flipped", "*.sst", flip(part(1, 2)), "refused"},
		{"table flipped at its end", "*.sst", flip(end), "refused"},
		{"count log missing", "*.log", nil, "refused"},
		{"count log empty", "*.log", cut(part(0, 1)), "refused"},
		{"count log header cut", "*.log", cut(at(3)), "refused"},
		{"count log cut in half", "*.log", cut(part(1, 2)), "refused"},
		{"count log cut by a byte", "*.log", cut(end), "refused"},
		{"count log zeroed in the middle", "*.log", zeros, "refused"},
		{"count log flipped in its header", "*.log", flip(at(3)), "refused"},
		{"count log flipped at its beginning", "*.log", flip(at(34)), "refused"},
		{"count log flipped", "*.log", flip(part(1, 2)), "refused"},
		{"count log flipped behind what is on the disk", "*.log", flip(end), "complete"},
		{"log header cut", "*.mem", cut(at(3)), "refused"},
		{"log cut in half", "*.mem", cut(part(1, 2)), "complete"},
		{"log cut by a byte", "*.mem", cut(end), "complete"},
		{"log zeroed in the middle", "*.mem", zeros, "refused"},
		{"log flipped in its header", "*.mem", flip(at(3)), "refused"},
		{"log flipped at its beginning", "*.mem", flip(at(20)), "refused"},
		{"log flipped in a length", "*.mem", flip(at(23)), "refused"},
		{"log flipped", "*.mem", flip(part(1, 2)), "complete"},
		{"log flipped at its end", "*.mem", flip(end), "complete"},
		{"value log missing", "*.vlog", nil, "complete"},
		{"value log empty", "*.vlog", cut(part(0, 1)), "complete"},
		{"value log header cut", "*.vlog", cut(at(3)), "refused"},
		{"value log cut to its header", "*.vlog", cut(at(20)), "complete"},
		{"value log flipped in its header", "*.vlog", flip(at(3)), "refused"},
		{"value log flipped", "*.vlog", flip(at(30)), "refused"},
		{"value log flipped in its middle", "*.vlog", flip(func(d []byte) int { return len(d) / 2 }), "complete"},
		{"discard statistics missing", "DISCARD", nil, "complete"},
		{"discard statistics cut", "DISCARD", cut(at(7)), "complete"},
		{"discard statistics flipped", "DISCARD", flip(at(3)), "complete"},
		{"list of encryption keys missing", "KEYREGISTRY", nil, "complete"},
		{"list of encryption keys with other random bytes", "KEYREGISTRY", flip(at(3)), "complete"},
		{"list of encryption keys empty", "KEYREGISTRY", cut(at(0)), "refused"},
		{"list of encryption keys cut", "KEYREGISTRY", cut(at(20)), "refused"},
		{"list of encryption keys with another text", "KEYREGISTRY", flip(at(20)), "refused"},
		{"a key of 4 GiB behind", "KEYREGISTRY", behind(0xff), "refused"},
		{"a key of 1 GiB behind", "KEYREGISTRY", behind(0x40), "refused"},
		{"an empty key behind", "KEYREGISTRY", behind(0), "refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := try(t, crashed, test.file, test.change); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// TestDamagedLengths: a wrong length that Badger reads before it verifies a
// checksum does not make the store allocate so much memory. Without Long, each
// place gets one of the lengths.
func TestDamagedLengths(t *testing.T) {
	crashed := crashedStore(t)
	at := func(n int) func([]byte) int { return func([]byte) int { return n } }
	lengths := [][]byte{{0xff, 0xff, 0xff, 0xff}, {0x7f, 0xff, 0xff, 0xff}, {0, 0x10, 0, 0}}
	for i, place := range []struct {
		name, file string
		at         func(data []byte) int
	}{
		{"manifest, length of its first set", "MANIFEST", at(8)},
		{"table, length of its checksum", "*.sst", func(data []byte) int { return len(data) - 4 }},
		{"table, length of its index", "*.sst", func(data []byte) int {
			return len(data) - 4 - int(binary.BigEndian.Uint32(data[len(data)-4:])) - 4
		}},
		{"log of a memtable, lengths of its first entry", "*.mem", at(22)},
		{"value log, lengths of its first entry", "*.vlog", at(22)},
		{"count log, length of its first record", "*.log", at(32)},
		{"discard statistics, first slot", "DISCARD", at(0)},
	} {
		for j, length := range lengths {
			if j != i%len(lengths) && !storetest.Long() {
				continue
			}
			got := try(t, crashed, place.file, func(data []byte) []byte {
				copy(data[place.at(data):], length)
				return data
			})
			if got != "refused" && got != "complete" {
				t.Errorf("%s %x: got %s", place.name, length, got)
			}
		}
	}
}

// damages are ways to damage a file at a random place. One without a function
// deletes it.
var damages = map[string]func(file string, data []byte, random *rand.Rand) []byte{
	"flipped": func(_ string, data []byte, random *rand.Rand) []byte {
		if n := content(data); n > 0 {
			data[random.IntN(n)] ^= 1 << random.IntN(8)
		}
		return data
	},
	"flipped anywhere": func(_ string, data []byte, random *rand.Rand) []byte {
		if len(data) > 0 {
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
		}
		return data
	},
	"cut": func(_ string, data []byte, random *rand.Rand) []byte { return data[:random.IntN(content(data)+1)] },
	// It spares the page in which the log of counts ends: a loss of its last
	// records looks like a crash before they were written.
	"with a page of zeros": func(file string, data []byte, random *rand.Rand) []byte {
		const pageSize = 4 << 10
		pages := (content(data) + pageSize - 1) / pageSize
		if filepath.Ext(file) == ".log" && pages > 1 {
			pages--
		}
		if pages > 0 {
			from := random.IntN(pages) * pageSize
			clear(data[from:min(from+pageSize, len(data))])
		}
		return data
	},
	"with junk behind": func(_ string, data []byte, random *rand.Rand) []byte {
		return binary.LittleEndian.AppendUint64(data, random.Uint64()|1)
	},
}

// TestDamageOfEveryFile damages every file of a store at random places: it is
// refused, or complete. Without Long, each file gets every other kind of damage.
func TestDamageOfEveryFile(t *testing.T) {
	seeds := uint64(1)
	if storetest.Long() {
		seeds = 20
	}
	crashed := crashedStore(t)
	files, err := os.ReadDir(crashed)
	if err != nil {
		t.Fatal(err)
	}
	for i, file := range files {
		for j, name := range slices.Sorted(maps.Keys(damages)) {
			if (i+j)%2 == 1 && !storetest.Long() {
				continue
			}
			for seed := range seeds {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				got := try(t, crashed, file.Name(), func(data []byte) []byte { return damages[name](file.Name(), data, random) })
				if got != "refused" && got != "complete" {
					t.Errorf("%s %s, seed %d: got %s", file.Name(), name, seed, got)
				}
			}
		}
	}
}

// TestRefusalChangesNothing: a refusal names the file, and after that is repaired
// the store is complete.
func TestRefusalChangesNothing(t *testing.T) {
	t.Parallel()
	crashed := crashedStore(t)
	for _, file := range []string{"MANIFEST", "*.sst", "*.log"} {
		dir := t.TempDir()
		copyStore(t, crashed, dir)
		path := find(t, dir, file)
		flip := func(data []byte) []byte { data[content(data)/2] ^= 1; return data }
		rewrite(t, path, flip)
		if s, err := badgerstore.Open(dir, badgerstore.Options{}); err == nil || !strings.Contains(strings.ToUpper(err.Error()), strings.ToUpper(filepath.Base(path))) {
			t.Errorf("%s flipped: got %v, %v", file, s, err)
		}
		rewrite(t, path, flip)
		if got := verdict(t, dir); got != "complete" {
			t.Errorf("%s repaired: got %s", file, got)
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
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithValueLogFileSize(16 << 20))
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
	db, err := badger.Open(badger.DefaultOptions(flushed).WithLogger(nil).WithValueLogFileSize(16 << 20).WithMemTableSize(2 << 20).WithValueThreshold(64 << 10).WithCompression(options.None))
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
