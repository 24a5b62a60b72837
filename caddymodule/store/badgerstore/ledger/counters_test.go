package ledger

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCounters drives the counters of a day against a map, with accounts
// and endpoints at both ends of shards, blocks and pages.
func TestCounters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l, d, want := New(nil), &day{}, map[cellID]int64{}
		accounts := rapid.Uint32Range(0, 3*dayShards*blockAccounts*blockPage)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			id := cellOf(accounts.Draw(t, "account"), rapid.Uint32Range(0, 40).Draw(t, "endpoint"))
			if got := l.used(d, id); got != want[id] {
				t.Fatalf("%#x: got %d, want %d", id, got, want[id])
			}
			c := d.shard(id).at(id)
			if c != d.shard(id).at(id) {
				t.Fatalf("%#x: the counter moved", id)
			}
			c.used++
			want[id]++
		}
		for id, used := range want {
			if got := l.used(d, id); got != used {
				t.Fatalf("%#x: got %d, want %d", id, got, used)
			}
		}
	})
}
