package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// take takes a call as a program does.
func (w *world) take(t testing.TB, taking gate.Taking, endpoint string) (gate.Taken, error) {
	t.Helper()
	taking.Endpoint = w.gate.Policy.Endpoint(endpoint)
	return w.gate.Take(httptest.NewRequest("POST", "/", nil).WithContext(t.Context()), taking)
}

// put changes acc_1.
func (w *world) put(t testing.TB, change func(*store.Account)) {
	t.Helper()
	if _, err := w.db.ChangeAccount(t.Context(), "acc_1", func(a *store.Account, _ bool) error { change(a); return nil }); err != nil {
		t.Fatal(err)
	}
}

// codeOf describes a decision: admitted, or why not.
func codeOf(taken gate.Taken) string {
	if f := taken.Refusal; f != nil {
		return fmt.Sprint(f.Status, " ", f.Code)
	}
	return "admitted " + taken.Grant.Account
}

// TestTake: a program takes a call as a request would, in each step of the gate.
func TestTake(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "batch", Patterns: []string{"POST /api/batch"}})
		c.Plans = append(c.Plans, policy.PlanConfig{Name: "none"})
		c.Plans[0].Concurrent = []policy.ConcurrentConfig{{Endpoint: "convert", Limit: 1}}
	})
	all := w.account(t, "acc_1")
	narrow := w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "narrow", Abilities: []string{"rates"}})
	w.override(t, "acc_1", store.Override{Limit: store.Limit{Endpoint: "rates", Period: store.Minute, Max: 2}, CreatedAt: noon})
	for _, test := range []struct {
		name, endpoint string
		gate.Taking
		want string
	}{
		{"a token", "convert", gate.Taking{Token: all}, "admitted acc_1"},
		{"an account", "convert", gate.Taking{Account: "acc_1"}, "admitted acc_1"},
		{"an unknown token", "convert", gate.Taking{Token: "tgk_x"}, "401 invalid_token"},
		{"an unknown account", "convert", gate.Taking{Account: "acc_2"}, "401 invalid_token"},
		{"another ability", "convert", gate.Taking{Token: narrow}, "403 insufficient_scope"},
		{"an endpoint that the plan lacks", "batch", gate.Taking{Account: "acc_1"}, "403 not_entitled"},
		{"a cost above the limit", "convert", gate.Taking{Account: "acc_1", Cost: 6}, "403 cost_above_limit"},
		{"a cost", "convert", gate.Taking{Account: "acc_1", Cost: 3}, "admitted acc_1"},
		{"a full limit", "convert", gate.Taking{Account: "acc_1"}, "429 quota_exceeded"},
		{"a pace", "rates", gate.Taking{Token: narrow, Cost: 2}, "admitted acc_1"},
		{"a pace that is used up", "rates", gate.Taking{Token: narrow}, "429 rate_limited"},
	} {
		taken, err := w.take(t, test.Taking, test.endpoint)
		if got := codeOf(taken); err != nil || got != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.name, got, err, test.want)
		}
		if (taken.Refusal == nil) != (taken.Call != "") {
			t.Errorf("%s: the call has the name %q", test.name, taken.Call)
		}
	}
	wantRefused := []string{
		" convert invalid_token", " convert invalid_token", "acc_1 convert insufficient_scope", "acc_1 batch not_entitled",
		"acc_1 convert cost_above_limit", "acc_1 convert quota_exceeded", "acc_1 rates rate_limited",
	}
	if !slices.Equal(w.refused, wantRefused) {
		t.Errorf("refused %q, want %q", w.refused, wantRefused)
	}
	if n := w.outcomes["convert admitted"]; n != 3 {
		t.Errorf("%d calls are in the metrics: %v", n, w.outcomes)
	}
	recent, err := w.db.Recent(t.Context(), "acc_1", noon)
	if err != nil || len(recent) != 4+5 {
		t.Errorf("%d recent calls, %v", len(recent), err)
	}
	for _, r := range recent {
		if r.Method != "" || r.Path != r.Endpoint || r.Code == "" && (r.Status != 200 || !strings.HasPrefix(r.RequestID, "call_")) {
			t.Errorf("recent call %+v", r)
		}
	}
	w.account(t, policy.AnonymousAccount) // which no option has
	if taken, err := w.take(t, gate.Taking{Account: policy.AnonymousAccount}, "convert"); err != nil || taken.Refusal != nil {
		t.Errorf("an account with the id of the anonymous one: %s, %v", codeOf(taken), err)
	}
	if got := w.get(t, convert, all); got.Code != 429 {
		t.Errorf("a request: got %d, want the same limit", got.Code)
	}
}

// TestTakeOnce: calls with the same id are one, also at once, after their limit is
// full, and over a restart of the gate. A refused one may be tried again.
func TestTakeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.account(t, "acc_1")
	w.account(t, "acc_2")
	var names sync.Map
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			taken, err := w.take(t, gate.Taking{Account: "acc_1", ID: "job", Cost: 2}, "convert")
			if err != nil || taken.Refusal != nil || taken.Limits == nil || taken.Rooms[0].Remaining != 3 {
				t.Errorf("got %+v, %v", taken, err)
			}
			names.Store(taken.Call, true)
		})
	}
	group.Wait()
	count := 0
	names.Range(func(_, _ any) bool { count++; return true })
	if count != 1 {
		t.Errorf("one call has %d names", count)
	}
	wantUsed := func(want int64) {
		t.Helper()
		list, err := w.db.Counts(t.Context(), "acc_1", "", calendar.UTCDay(noon), calendar.UTCDay(noon))
		if err != nil || len(list) != 1 || list[0].Used != want {
			t.Errorf("used %+v, %v, want %d", list, err, want)
		}
	}
	wantUsed(2)
	for _, other := range []gate.Taking{{Account: "acc_1", ID: "job", Cost: 1}, {Account: "acc_1", ID: "job"}} {
		if _, err := w.take(t, other, "convert"); !errors.Is(err, gate.ErrOtherCall) {
			t.Errorf("another cost: %v", err)
		}
	}
	if _, err := w.take(t, gate.Taking{Account: "acc_1", ID: "job", Cost: 2}, "rates"); !errors.Is(err, gate.ErrOtherCall) {
		t.Errorf("another endpoint: %v", err)
	}
	if taken, err := w.take(t, gate.Taking{Account: "acc_2", ID: "job", Cost: 1}, "convert"); err != nil || taken.Refusal != nil {
		t.Errorf("another account: %+v, %v", taken, err)
	}
	if taken, err := w.take(t, gate.Taking{Account: "acc_1", ID: "late", Cost: 4}, "convert"); err != nil || codeOf(taken) != "429 quota_exceeded" {
		t.Errorf("above the limit: %s, %v", codeOf(taken), err)
	}
	if taken, err := w.take(t, gate.Taking{Account: "acc_1", ID: "late", Cost: 3}, "convert"); err != nil || taken.Refusal != nil {
		t.Errorf("again with less: %s, %v", codeOf(taken), err)
	}
	if taken, err := w.take(t, gate.Taking{Account: "acc_1", ID: "job", Cost: 2}, "convert"); err != nil || taken.Refusal != nil {
		t.Errorf("a repetition when the limit is full: %s, %v", codeOf(taken), err)
	}
	wantUsed(5)
	w.set(noon.AddDate(0, 0, 1))
	if taken, err := w.take(t, gate.Taking{Account: "acc_1", ID: "job 2", Cost: 5}, "convert"); err != nil || taken.Refusal != nil {
		t.Errorf("the next day: %s, %v", codeOf(taken), err)
	}
}

// TestSettleTaken: a call of an endpoint with cost answer is settled once, by the
// gate that took it or by another one, and holds its reservation until then.
func TestSettleTaken(t *testing.T) {
	t.Parallel()
	for _, sameGate := range []bool{true, false} {
		w := newWorld(t, func(c *policy.Config) {
			c.Warn = []int{50}
			c.Endpoints[0].CostAnswer = &policy.CostAnswerConfig{Header: "X-Cost", Reserve: 4}
			c.Plans[0].Limits = nil
			c.Plans[0].MoreLimits = []policy.LimitConfig{
				{Endpoint: "convert", Period: "month", Limit: 8, Soft: 10}, {Endpoint: "convert", Limit: 5, Calls: true}, {Endpoint: "all", Period: "total", Limit: 20}, {Endpoint: "convert", Period: "hour", Limit: 20},
				{Endpoint: "rates", Limit: 9},
			}
		})
		w.account(t, "acc_1")
		take := func(cost int64) gate.Taken {
			t.Helper()
			taken, err := w.take(t, gate.Taking{Account: "acc_1", Cost: cost}, "convert")
			if err != nil {
				t.Fatal(err)
			}
			return taken
		}
		settle := func(name string, cost int64) error {
			if !sameGate {
				w.reservations = gate.NewReservations()
				options := w.gate.Options
				options.Reservations = w.reservations
				w.gate = gate.New(options)
			}
			return w.gate.Settle(httptest.NewRequest("POST", "/", nil).WithContext(t.Context()), name, cost)
		}
		first, second := take(0), take(5)
		if first.Refusal != nil || second.Refusal != nil || first.Call == second.Call {
			t.Fatalf("got %s and %s", codeOf(first), codeOf(second))
		}
		if got := codeOf(take(2)); got != "429 quota_reserved" {
			t.Errorf("a third call: got %s", got)
		}
		if len(w.reached) > 0 {
			t.Errorf("reservations made events: %v", w.reached)
		}
		if err := settle(first.Call, 1); err != nil {
			t.Fatal(err)
		}
		if err := settle(first.Call, 1); err != nil {
			t.Errorf("a repetition: %v", err)
		}
		if err := settle(first.Call, 2); !errors.Is(err, gate.ErrSettled) {
			t.Errorf("another cost: %v", err)
		}
		for _, name := range []string{"", "call_", "call_!", first.Call + "x", "call_AAAAAAAAAAAAAAAAAAAAAGFjY18x", "call_AAAAAAAAAAAAAAAAAAAAAH14"} {
			if err := settle(name, 1); !errors.Is(err, gate.ErrNoCall) {
				t.Errorf("the call %q: %v", name, err)
			}
		}
		if err := settle(second.Call, 7); err != nil {
			t.Fatal(err)
		}
		rest := take(1)
		used := map[string]int64{}
		for i, l := range rest.Limits {
			if l.Period.IsPace() {
				used["pace"] = rest.Rooms[i].Remaining
			} else {
				used[fmt.Sprint(l.Period, l.Calls)] = rest.Rooms[i].Used(&l)
			}
		}
		pace := int64(11) // 20 - 4 + 3 - 5 - 2 - 1
		if !sameGate {
			pace = 8 // nothing is given back
		}
		want := map[string]int64{"month false": 9, "day true": 3, "total false": 9, "pace": pace}
		if fmt.Sprint(used) != fmt.Sprint(want) {
			t.Errorf("same gate %v: got %v, want %v", sameGate, used, want)
		}
		if n := w.outcomes["convert cost_above"]; n != 1 {
			t.Errorf("metrics: %v", w.outcomes)
		}
		if len(w.reached) == 0 {
			t.Error("no event when the calls are settled")
		}
		plain, err := w.take(t, gate.Taking{Account: "acc_1", ID: "x"}, "rates")
		if err != nil || plain.Refusal != nil {
			t.Fatal(codeOf(plain), err)
		}
		if err := settle(plain.Call, 1); !errors.Is(err, gate.ErrNoCall) {
			t.Errorf("a call of an endpoint with a fixed cost: %v", err)
		}
		w.set(noon.Add(61 * time.Minute))
		if err := settle(rest.Call, 1); !errors.Is(err, gate.ErrNoCall) {
			t.Errorf("a call of an hour ago: %v", err)
		}
		if err := settle(first.Call, 1); err != nil {
			t.Errorf("a repetition later: %v", err)
		}
	}
}

// TestTakeOnceAfterChanges: a repetition is the call that was taken, whatever has
// changed since, unless the token is not valid any more.
func TestTakeOnceAfterChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world){
		"a lower limit": func(w *world) {
			w.override(t, "acc_1", store.Override{Limit: store.Limit{Endpoint: "convert", Period: store.Day, Max: 1}, CreatedAt: noon})
		},
		"another plan":           func(w *world) { w.put(t, func(a *store.Account) { a.Plan = policy.FreePlan }) },
		"a new cost":             func(w *world) { w.gate.Policy.Endpoint("convert").Cost = 5 },
		"a cost above the limit": func(w *world) { w.gate.Policy.Endpoint("convert").Cost = 9 },
	} {
		w := newWorld(t, nil)
		w.account(t, "acc_1")
		var calls []string
		for i := range 3 {
			if i == 1 {
				change(w)
			}
			taken, err := w.take(t, gate.Taking{Account: "acc_1", ID: "job"}, "convert")
			if err != nil || taken.Refusal != nil || taken.Cost != 1 {
				t.Errorf("%s, repetition %d: %s %+v, %v", name, i, codeOf(taken), taken.Left, err)
			}
			calls = append(calls, taken.Call)
		}
		if calls[0] == "" || calls[1] != calls[0] || w.used(t, "acc_1", "convert", noon) != 1 {
			t.Errorf("%s: got the calls %q", name, calls)
		}
		if taken, err := w.take(t, gate.Taking{Account: "acc_1", ID: "other job", Cost: 9}, "convert"); err != nil || taken.Refusal == nil {
			t.Errorf("another call after %s: %s, %v", name, codeOf(taken), err)
		}
	}
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	cache := &caching{Store: w.db, grants: map[token.Hash]store.Grant{}}
	w.store = cache
	for _, want := range []string{"admitted acc_1", "401 invalid_token"} {
		taken, err := w.take(t, gate.Taking{Token: bearer, ID: "job", Cost: 2}, "convert")
		if err != nil || codeOf(taken) != want {
			t.Errorf("got %s, %v, want %s", codeOf(taken), err, want)
		}
		if err := w.db.RevokeKey(t.Context(), "acc_1", "key_acc_1", noon); err != nil {
			t.Fatal(err)
		}
		cache.version++
	}
}

// TestSettledAddress: the last use of a key is from the client that the program named.
func TestSettledAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.Endpoints[0].CostAnswer = &policy.CostAnswerConfig{Header: "X-Cost", Reserve: 4}
	})
	taken, err := w.take(t, gate.Taking{Token: w.account(t, "acc_1"), Client: "203.0.113.9"}, "convert")
	if err == nil {
		err = w.gate.Settle(httptest.NewRequest("POST", "/", nil), taken.Call, 2)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := w.db.Key(t.Context(), "acc_1", "key_acc_1")
	if err != nil || key.LastUsedFrom.String() != "203.0.113.9" {
		t.Errorf("got %+v, %v", key, err)
	}
}

// handles is a store that expects handles in settlements.
type handles struct {
	gate.Store
	t *testing.T
}

func (h handles) Settle(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	if call.Handle == 0 {
		h.t.Error("a settlement has no handle: the account may be another one by then, and paces of store redis are not its own")
	}
	return h.Store.Settle(ctx, call, limits, rooms, cost, refund)
}

// TestSettleElsewhere: a call holds nothing any more once a settlement is repeated at
// the gate that took it, and nothing of its request stays in memory.
func TestSettleElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.Endpoints[0].CostAnswer = &policy.CostAnswerConfig{Header: "X-Cost", Reserve: 5}
		c.Plans[0].Limits["rates"] = nil
		c.Endpoints[1].CostAnswer = c.Endpoints[0].CostAnswer
	})
	w.account(t, "acc_1")
	w.store = handles{w.store, t}
	options := w.gate.Options
	options.Reservations = gate.NewReservations()
	other := gate.New(options)
	r := httptest.NewRequest("POST", "/", nil).WithContext(t.Context())
	taken, err := w.gate.Take(r, gate.Taking{Account: "acc_1", Endpoint: w.gate.Policy.Endpoint("convert")})
	if err != nil || taken.Refusal != nil {
		t.Fatal(codeOf(taken), err)
	}
	for i, g := range []*gate.Gate{other, w.gate} {
		if err := g.Settle(r, taken.Call, 5); err != nil {
			t.Errorf("gate %d: %v", i, err)
		}
	}
	if full, err := w.take(t, gate.Taking{Account: "acc_1"}, "convert"); err != nil || codeOf(full) != "429 quota_exceeded" {
		t.Errorf("after the settlement: got %s, %v", codeOf(full), err)
	}
	if _, err := w.gate.Take(r, gate.Taking{Account: "acc_1", Endpoint: w.gate.Policy.Endpoint("rates")}); err != nil {
		t.Fatal(err)
	}
	w.last = nil
	request := weak.Make(r)
	for range 10 {
		runtime.GC()
	}
	if request.Value() != nil {
		t.Error("a call that waits for its settlement keeps its request in memory")
	}
	runtime.KeepAlive(w)
}

// TestTakeInShadow: mode shadow admits a call that enforce refuses, and has nothing to
// settle.
func TestTakeInShadow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.Mode = policy.Shadow
		c.Endpoints[0].CostAnswer = &policy.CostAnswerConfig{Header: "X-Cost", Reserve: 5}
	})
	w.account(t, "acc_1")
	for i, counted := range []bool{true, false} {
		taken, err := w.take(t, gate.Taking{Account: "acc_1"}, "convert")
		if err != nil || taken.Refusal != nil || (taken.Call != "") != counted {
			t.Errorf("call %d: got %+v, %v", i, taken, err)
		}
	}
	if want := []string{"acc_1 convert quota_reserved"}; !slices.Equal(w.refused, want) {
		t.Errorf("refused %q, want %q", w.refused, want)
	}
	recent, err := w.db.Recent(t.Context(), "acc_1", noon)
	if err != nil || len(recent) != 1 || recent[0].Cost != 0 {
		t.Errorf("recent calls: %+v, %v", recent, err)
	}
}

// TestTakeWithRequests: many programs and clients at once never exceed a limit.
func TestTakeWithRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) { c.Plans[0].Limits["convert"] = new(policy.Limit(300)) })
	bearer := w.account(t, "acc_1")
	var admitted atomic.Int64
	var group sync.WaitGroup
	for n := range 64 {
		group.Go(func() {
			for i := range 20 {
				id := ""
				if i%2 == 0 {
					id = fmt.Sprint(n/2, " ", i) // two have the same
				}
				if n%2 == 0 && i%3 == 0 {
					if w.get(t, convert, bearer).Code == 200 {
						admitted.Add(1)
					}
					continue
				}
				taken, err := w.take(t, gate.Taking{Token: bearer, ID: id}, "convert")
				switch {
				case err != nil:
					t.Error(err)
				case taken.Refusal == nil && id == "":
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	list, err := w.db.Counts(t.Context(), "acc_1", "", calendar.UTCDay(noon), calendar.UTCDay(noon))
	if err != nil || len(list) != 1 || list[0].Used != 300 {
		t.Errorf("counted %+v, %v", list, err)
	}
	if n := admitted.Load(); n > 300 {
		t.Errorf("%d calls without an id were admitted", n)
	}
}

// versioned is a store of several gates.
type versioned struct{ gate.Store }

func (v versioned) GrantAccount(ctx context.Context, account string, fresh bool) (store.Grant, error) {
	grant, err := v.Store.GrantAccount(ctx, account, fresh)
	grant.Version = 7
	return grant, err
}

// TestTakenElsewhere: a call holds its reservation until it can no longer be settled.
// With several gates it is a minute, because another one may have settled it.
func TestTakenElsewhere(t *testing.T) {
	t.Parallel()
	for _, several := range []bool{false, true} {
		w := newWorld(t, func(c *policy.Config) {
			c.Endpoints[0].CostAnswer = &policy.CostAnswerConfig{Header: "X-Cost", Reserve: 5}
		})
		w.account(t, "acc_1")
		if several {
			w.store = versioned{w.store}
		}
		var got []string
		for _, after := range []time.Duration{0, 59 * time.Second, 61 * time.Second, 59 * time.Minute, 61 * time.Minute} {
			w.set(noon.Add(after))
			if after == 0 {
				if first, err := w.take(t, gate.Taking{Account: "acc_1"}, "convert"); err != nil || first.Refusal != nil {
					t.Fatal(codeOf(first), err)
				}
			}
			taken, err := w.take(t, gate.Taking{Account: "acc_1", Cost: 1}, "convert")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, taken.Refusal.Code)
		}
		want := []string{"quota_reserved", "quota_reserved", "quota_reserved", "quota_reserved", "quota_exceeded"}
		if several {
			want = []string{"quota_reserved", "quota_reserved", "quota_exceeded", "quota_exceeded", "quota_exceeded"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("several gates %v: got %v, want %v", several, got, want)
		}
	}
}
