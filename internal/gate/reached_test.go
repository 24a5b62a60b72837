package gate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestReached: each call reports the percentages that the limits of its
// account have reached, and a refusal the limits that refused. Limits of keys
// and paces are not reported.
func TestReached(t *testing.T) {
	t.Parallel()
	for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
		w := newWorld(t, func(c *policy.Config) {
			c.Mode, c.Warn = mode, []int{100, 80}
			c.Plans[0].MoreLimits = []policy.LimitConfig{
				{Endpoint: "convert", Period: "month", Limit: 10}, {Endpoint: "convert", Period: "second", Limit: 100},
			}
		})
		w.account(t, "acc_1")
		bearer := w.key(t, store.Key{ID: "key_own", Account: "acc_1", Name: "own", Limits: []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 5}}})
		var got []string
		for call := range 7 {
			w.reached = nil
			w.get(t, convert, bearer)
			for _, q := range w.reached {
				got = append(got, fmt.Sprint(call+1, " ", q.Period, " ", q.Used, "/", q.Limit, " ", q.Threshold))
				if q.Account != "acc_1" || q.Plan != "small" || q.Endpoint != "convert" || !q.At.Equal(noon) || q.Start.After(noon) || !q.End.After(noon) || q.End.Sub(q.Start) < 24*time.Hour {
					t.Errorf("got %+v", q)
				}
			}
		}
		want := []string{
			"4 day 4/5 80", "5 day 5/5 80", "5 day 5/5 100",
			"6 day 5/5 80", "6 day 5/5 100", "6 day 5/5 0", "7 day 5/5 80", "7 day 5/5 100", "7 day 5/5 0",
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", mode, got, want)
		}
	}
}

// TestReachedNothing: a limit of 0 is exceeded and has no percentages. Without
// the option warn, only refusals are reported.
func TestReachedNothing(t *testing.T) {
	t.Parallel()
	for _, warn := range [][]int{nil, {1, 80}} {
		w := newWorld(t, func(c *policy.Config) {
			c.Warn = warn
			c.Plans[0].Limits["convert"] = new(policy.Limit(0))
		})
		w.get(t, convert, w.account(t, "acc_1"))
		if len(w.reached) != 1 || w.reached[0].Threshold != 0 || w.reached[0].Used != 0 || w.reached[0].Limit != 0 {
			t.Errorf("got %+v", w.reached)
		}
	}
}
