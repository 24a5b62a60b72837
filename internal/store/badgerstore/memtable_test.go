package badgerstore

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// sampleWAL returns the write-ahead log of a few transactions, with a few zeros
// after them, and where each transaction ends.
func sampleWAL(t testing.TB) (log []byte, ends []int) {
	t.Helper()
	dir := t.TempDir()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil).WithMemTableSize(memtable).
		WithValueThreshold(maxValue).WithValueLogFileSize(16 << 20))
	if err != nil {
		t.Fatalf("opening: %v", err)
	}
	defer db.Close()
	read := func() []byte {
		paths, err := filepath.Glob(filepath.Join(dir, "*.mem"))
		if err != nil || len(paths) != 1 {
			t.Fatalf("logs: %v, %v", paths, err)
		}
		data, err := os.ReadFile(paths[0])
		if err != nil {
			t.Fatalf("reading: %v", err)
		}
		return data
	}
	for n := range 6 {
		err := db.Update(func(txn *badger.Txn) error {
			for i := range n%3 + 1 {
				e := badger.NewEntry([]byte{'k', byte(n), byte(i)}, bytes.Repeat([]byte{byte(n*16 + i + 1)}, 1+n*n*n*4))
				if i == 1 {
					e = e.WithTTL(time.Hour)
				}
				if err := txn.SetEntry(e); err != nil {
					return err
				}
			}
			return txn.Delete([]byte("gone"))
		})
		if err != nil {
			t.Fatalf("writing: %v", err)
		}
		log = read()
		ends = append(ends, lastNonZero(log)+1)
	}
	return log[:ends[len(ends)-1]+maxEntry], ends
}

// TestWALTornAnywhere: a log that ends after any byte is accepted, because the
// process may have died there.
func TestWALTornAnywhere(t *testing.T) {
	t.Parallel()
	log, ends := sampleWAL(t)
	if newest, _, err := inspectWAL(log); err != nil || newest != uint64(len(ends)) {
		t.Fatalf("intact: version %d, %v, want %d", newest, err, len(ends))
	}
	torn := make([]byte, len(log))
	for cut := walHeader; cut < ends[len(ends)-1]; cut++ {
		copy(torn, log[:cut])
		want := uint64(len(ends))
		for i, end := range ends {
			if cut < end {
				want = uint64(i)
				break
			}
		}
		if newest, at, err := inspectWAL(torn); err != nil || newest != want {
			t.Errorf("torn at byte %d: version %d, %v at %d, want %d", cut, newest, err, at, want)
		}
	}
}

// TestWALTornCopy: a long entry without its beginning or middle is accepted,
// because processors copy it in another order.
func TestWALTornCopy(t *testing.T) {
	t.Parallel()
	log, ends := sampleWAL(t)
	at := ends[len(ends)-2]
	entry, ok := parseEntry(log[at:])
	for ok && entry.size < 400 {
		at += entry.size
		entry, ok = parseEntry(log[at:])
	}
	if !ok {
		t.Fatalf("the sample's last transaction has no long entry")
	}
	for _, hole := range [][2]int{{0, 8}, {0, 32}, {64, 128}, {32, 300}, {100, entry.size - 8}, {16, entry.size - 32}} {
		torn := slices.Concat(log[:at+entry.size], make([]byte, maxEntry))
		clear(torn[at+hole[0] : at+hole[1]])
		if _, at, err := inspectWAL(torn); err != nil {
			t.Errorf("without %v: %v at byte %d", hole, err, at)
		}
	}
}

// TestWALFlippedAnywhere: every changed bit is detected, except in the lengths
// of the last entry: with a greater length it looks incomplete, as after a
// crash.
func TestWALFlippedAnywhere(t *testing.T) {
	t.Parallel()
	log, ends := sampleWAL(t)
	whole := log[:ends[len(ends)-1]]
	marker := bytes.LastIndex(whole, []byte("!badger!txn")) - 5
	for at := walHeader; at < len(whole); at++ {
		for bit := range 8 {
			log[at] ^= 1 << bit
			inLengths := at >= marker+2 && at < marker+5
			if _, _, err := inspectWAL(log); err == nil && !inLengths {
				t.Errorf("bit %d of byte %d of %d flipped: not noticed", bit, at, len(whole))
			}
			log[at] ^= 1 << bit
		}
	}
}

// TestWALCutAnywhere: a file that is too short is refused, unless it ends with a
// complete transaction.
func TestWALCutAnywhere(t *testing.T) {
	t.Parallel()
	log, ends := sampleWAL(t)
	for cut := range ends[len(ends)-1] + 1 {
		_, _, err := inspectWAL(log[:cut])
		if whole := slices.Contains(ends, cut) || cut == walHeader; whole != (err == nil) {
			t.Errorf("cut at byte %d: got %v", cut, err)
		}
	}
}

// FuzzInspectWAL: whatever is in the file, it is read within its bounds,
// and the place of a fault lies in it.
func FuzzInspectWAL(f *testing.F) {
	log, _ := sampleWAL(f)
	f.Add(log)
	f.Add(log[:200])
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, at, _ := inspectWAL(data); at < 0 || at > len(data) {
			t.Errorf("fault at byte %d of %d", at, len(data))
		}
	})
}
