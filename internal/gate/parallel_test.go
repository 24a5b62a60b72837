package gate_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestParallelCalls makes fifty calls at once that five limits cover. As many
// are admitted as the smallest limit allows, and each counter has their cost.
func TestParallelCalls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                         string
		cost                         int64
		day, month, all, pace, ofKey int64
		want                         int64 // calls
	}{
		{"the key is the smallest", 1, 40, 30, 20, 1000, 10, 10},
		{"the month is the smallest", 1, 40, 9, 20, 1000, 10, 9},
		{"the pace is the smallest", 1, 40, 30, 20, 6, 10, 6},
		{"costs of which none is left over", 7, 280, 210, 140, 1000, 70, 10},
		{"costs with a rest", 7, 280, 210, 140, 74, 76, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(p *policy.Config) {
				p.Endpoints[0].Cost = c.cost
				p.Plans[0].Limits = nil
				p.Plans[0].MoreLimits = []policy.LimitConfig{
					{Endpoint: "convert", Limit: policy.Limit(c.day)},
					{Endpoint: "convert", Period: "month", Limit: policy.Limit(c.month)},
					{Endpoint: store.All, Limit: policy.Limit(c.all)},
					{Endpoint: store.All, Period: "second", Limit: policy.Limit(c.pace)},
				}
			})
			w.account(t, "acc_1")
			bearer := w.key(t, store.Key{ID: "key_1", Account: "acc_1", Name: "own", Limits: []store.Limit{{Endpoint: "convert", Period: store.Day, Max: c.ofKey}}})
			var reached atomic.Int64
			w.next = func(w http.ResponseWriter, _ *http.Request) error {
				reached.Add(1)
				w.WriteHeader(http.StatusOK)
				return nil
			}
			var admitted atomic.Int64
			var group sync.WaitGroup
			for range 50 {
				group.Go(func() {
					if w.get(t, convert, bearer).Code == http.StatusOK {
						admitted.Add(1)
					}
				})
			}
			group.Wait()
			if admitted.Load() != c.want || reached.Load() != c.want {
				t.Errorf("%d calls were admitted and %d reached the upstream, want %d", admitted.Load(), reached.Load(), c.want)
			}
			for _, key := range []string{"", "key_1"} {
				first, last := w.gate.Policy.Calendar.At(noon).Day.Month()
				counts, err := w.db.Counts(t.Context(), "acc_1", key, first, last)
				sum := int64(0)
				for _, n := range counts {
					sum += n.Used
				}
				if err != nil || len(counts) > 1 || sum != c.want*c.cost {
					t.Errorf("key %q: counted %v (%v), want %d", key, counts, err, c.want*c.cost)
				}
			}
		})
	}
}
