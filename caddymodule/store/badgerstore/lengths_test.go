package badgerstore_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// TestDamagedLengths: a wrong length that Badger reads before it verifies a
// checksum does not make the store allocate so much memory.
func TestDamagedLengths(t *testing.T) {
	crashed := crashedStore(t)
	at := func(n int) func([]byte) int { return func([]byte) int { return n } }
	places := []struct {
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
	}
	for _, place := range places {
		for _, length := range [][]byte{{0xff, 0xff, 0xff, 0xff}, {0x7f, 0xff, 0xff, 0xff}, {0xff, 0xff, 0xff, 0x07}, {0, 0x10, 0, 0}, {0, 0, 0, 1}} {
			t.Run(fmt.Sprintf("%s %x", place.name, length), func(t *testing.T) {
				dir := t.TempDir()
				copyStore(t, crashed, dir)
				change(t, dir, place.file, func(data []byte) []byte {
					copy(data[place.at(data):], length)
					return data
				})
				got := ""
				cost := allocated(func() { got = verdict(t, dir) })
				if got == "refused" && cost > maxCost || !slices.Contains([]string{"refused", "complete"}, got) {
					t.Errorf("got %s, with %d MiB", got, cost>>20)
				}
			})
		}
	}
}
