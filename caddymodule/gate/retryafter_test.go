package gate_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// waits are days at whose end a client waits: those on which clocks change,
// and the last ones of months of 28 to 31 days. Those of one zone are in
// different months, in ascending order.
var waits = []struct {
	zone string
	days []string
}{
	{"UTC", []string{"2127-01-31", "2127-04-30", "2128-02-29", "2129-02-28", "2129-12-31"}},
	{"Europe/Berlin", []string{"2127-03-29", "2127-10-25", "2128-03-28", "2128-10-31"}},
	{"America/St_Johns", []string{"2009-03-07", "2009-10-31"}},
	{"Pacific/Apia", []string{"2011-09-23", "2011-11-30", "2011-12-29", "2012-03-31"}},
	{"America/Havana", []string{"2127-03-08", "2127-10-31"}},
	{"Australia/Lord_Howe", []string{"2127-04-05", "2127-10-04"}},
	{"America/Santiago", []string{"2127-04-05", "2127-09-06"}},
	{"Asia/Kathmandu", []string{"2127-06-30", "2128-02-29"}},
}

// waitOffsets are instants before and after the end of a day.
var waitOffsets = []time.Duration{-26 * time.Hour, -45 * time.Minute, -time.Second, -1, 0, 1, 61 * time.Second}

// waiter is an account with two limits.
type waiter struct {
	name, bearer, target string
	offset               time.Duration
}

// TestRetryAfter: a client that waits as long as a refusal says is admitted,
// and more than a second less is too short. That is true for each pair of periods, for
// limits of an endpoint, of all endpoints and of a key, and for each cost.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, c := range waits {
		t.Run(c.zone, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(p *policy.Config) { *p = waitConfig(c.zone) })
			for _, waiter := range waiters(t, w) {
				for _, day := range c.days {
					noon, err := time.ParseInLocation(time.DateOnly, day, zone(t, c.zone))
					if err != nil {
						t.Fatal(err)
					}
					end := w.gate.Policy.Calendar.At(noon.Add(12 * time.Hour)).End
					waiter.wait(t, w, end.Add(waiter.offset))
				}
			}
		})
	}
}

// waitCosts are the costs of the endpoints.
var waitCosts = map[string]int64{"one": 1, "seven": 7}

// waitConfig has a plan for each pair of periods.
func waitConfig(zone string) policy.Config {
	c := policy.Config{Timezone: zone}
	for name, cost := range waitCosts {
		c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: name, Pattern: "GET /" + name, Cost: cost})
		for _, a := range store.Periods {
			for _, b := range store.Periods {
				c.Plans = append(c.Plans, policy.PlanConfig{Name: name + "." + a + "." + b, MoreLimits: []policy.LimitConfig{
					{Endpoint: name, Period: a, Limit: policy.Limit(4 * cost)},
					{Endpoint: store.All, Period: b, Limit: policy.Limit(5*cost + 2)},
				}})
			}
			c.Plans = append(c.Plans, policy.PlanConfig{Name: name + "." + a, MoreLimits: []policy.LimitConfig{
				{Endpoint: name, Period: a, Limit: policy.Limit(5*cost + 2)},
			}})
		}
	}
	return c
}

// waiters makes an account for each offset, cost and pair of limits. The second
// limit is one of the plan, or of the key. Without Long, each cost and pair has
// one of the offsets.
func waiters(t *testing.T, w *world) (all []*waiter) {
	t.Helper()
	n := 0
	add := func(name, plan string, offset time.Duration, own ...store.Limit) {
		if n++; storetest.Long() || n%len(waitOffsets) == 0 {
			all = append(all, newWaiter(t, w, name, plan, offset, own))
		}
	}
	for _, offset := range waitOffsets {
		for _, name := range slices.Sorted(maps.Keys(waitCosts)) {
			for i, a := range store.Periods {
				add(name, name+"."+a, offset)
				for j, b := range store.Periods {
					add(name, name+"."+a+"."+b, offset)
					endpoint := []string{name, store.All}[(i+j)%2]
					add(name, name+"."+a, offset, store.Limit{Endpoint: endpoint, Period: store.Period(j + 1), Max: 4 * waitCosts[name]})
				}
			}
		}
	}
	return all
}

func newWaiter(t *testing.T, w *world, endpoint, plan string, offset time.Duration, own []store.Limit) *waiter {
	t.Helper()
	of := &waiter{name: fmt.Sprint(plan, " ", own, " at ", offset), target: "/" + endpoint, offset: offset}
	id, err := token.NewID(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of.bearer = tok.Reveal()
	if _, err := storetest.PutAccount(t.Context(), w.store, store.Account{ID: id, Plan: plan}); err != nil {
		t.Fatal(err)
	}
	key := store.Key{ID: "key_" + id, Account: id, Kind: token.Key, Name: "ci", Abilities: []string{endpoint}, Limits: own}
	if err := w.store.CreateKey(t.Context(), key, tok.Hash()); err != nil {
		t.Fatal(err)
	}
	return of
}

// wait makes calls until one is refused, and then waits.
func (of *waiter) wait(t *testing.T, w *world, at time.Time) {
	t.Helper()
	for _, before := range []time.Duration{25 * time.Minute, 20 * time.Second, 700 * time.Millisecond} {
		w.set(at.Add(-before))
		w.get(t, of.target, of.bearer)
	}
	w.set(at)
	answer := w.get(t, of.target, of.bearer)
	for range 8 {
		if answer.Code == http.StatusOK {
			answer = w.get(t, of.target, of.bearer)
		}
	}
	seconds, err := strconv.Atoi(answer.Header().Get("Retry-After"))
	if err != nil || answer.Code != http.StatusTooManyRequests || seconds < 1 {
		t.Fatalf("%s, %s: got %d, Retry-After %q", at, of.name, answer.Code, answer.Header().Get("Retry-After"))
	}
	wait := time.Duration(seconds) * time.Second
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{max(0, wait-time.Second-1), http.StatusTooManyRequests}, {wait, http.StatusOK}} {
		w.set(at.Add(step.after))
		if got := w.get(t, of.target, of.bearer); got.Code != step.want {
			t.Errorf("%s, %s: got %d %s after it was refused: %s\n%s", at, of.name, got.Code, step.after, answer.Body, got.Body)
		}
	}
}
