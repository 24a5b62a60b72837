package ledger

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestIndex drives an index against a map, with hashes that share homes
// at both ends of the table.
func TestIndex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var x index
		want := map[uint32][]uint32{}
		hashes := rapid.SampledFrom([]uint32{0, 1, 2, 1 << 29, 1<<29 + 1, 1 << 31, 1<<32 - 2, 1<<32 - 1})
		for row := range uint32(rapid.IntRange(1, 100).Draw(t, "rows")) {
			hash := hashes.Draw(t, "hash")
			x.add(hash, row)
			want[hash] = append(want[hash], row)
			for hash, rows := range want {
				var got []uint32
				row, at, ok := x.next(hash, x.first(hash))
				for ; ok; row, at, ok = x.next(hash, at) {
					got = append(got, row)
				}
				slices.Sort(got)
				if slices.Sort(rows); !slices.Equal(got, rows) {
					t.Fatalf("hash %#x: got rows %v, want %v", hash, got, rows)
				}
			}
		}
	})
}
