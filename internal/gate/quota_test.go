package gate_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestPanic: a panic of the handler reaches the server. The call counts,
// unless server errors are given back.
func TestPanic(t *testing.T) {
	t.Parallel()
	for rule, want := range map[policy.Refund]int64{policy.RefundUnreachable: 1, policy.RefundServerErrors: 0, policy.RefundNever: 1} {
		w := newWorld(t, func(c *policy.Config) { c.Refund = rule })
		bearer := w.account(t, "acc_1")
		w.next = func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }
		func() {
			defer func() {
				if r, _ := recover().(error); !errors.Is(r, http.ErrAbortHandler) {
					t.Errorf("got the panic %v", r)
				}
			}()
			w.get(t, convert, bearer)
		}()
		recent, err := w.db.Recent(t.Context(), "acc_1", w.clock())
		if n := w.used(t, "acc_1", "convert", noon); n != want || err != nil || len(recent) != 1 || recent[0].Status != 500 {
			t.Errorf("%s: counted %d, want %d; recent %+v (%v)", rule, n, want, recent, err)
		}
	}
}

// TestOutcomes: each outcome is counted once, for its endpoint. HEAD counts as
// GET.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	w.send(t, "HEAD", convert, "", "Authorization: Bearer "+bearer)
	for range 5 {
		w.get(t, convert, bearer)
	}
	w.next = func(http.ResponseWriter, *http.Request) error { return failure(http.StatusGatewayTimeout) }
	w.get(t, "/api/rates/EUR", bearer)
	w.get(t, convert, "junk")
	w.get(t, "/api/nothing", bearer)
	w.get(t, "/api//nothing", bearer)
	want := map[string]int{
		"convert admitted": 5, "convert exhausted": 1, "convert unauthenticated": 1,
		"rates admitted": 1, "rates refunded": 1, "rates failed": 1, "none not_found": 1, "none malformed": 1,
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range want {
		if w.outcomes[name] != n {
			t.Errorf("%s: got %d, want %d", name, w.outcomes[name], n)
		}
	}
	if len(w.outcomes) != len(want) {
		t.Errorf("got %v", w.outcomes)
	}
}

// takeFails is a store that grants and fails to count.
type takeFails struct {
	t *testing.T
	gate.Store
	err   error
	takes *atomic.Int64
}

func (f takeFails) Settle(context.Context, store.Call, []store.Limit, []store.Room, int64, bool) error {
	f.t.Error("a call was given back")
	return nil
}

func (f takeFails) Take(context.Context, store.Call, []store.Limit, []store.Room) (bool, error) {
	f.takes.Add(1)
	return false, f.err
}

// TestRemainingIsKnown: logs and other handlers get the remaining calls only
// after the limits were checked.
func TestRemainingIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer, counts := w.account(t, "acc_1"), w.store
	for i, test := range []struct {
		target string
		store  gate.Store
		status int
		want   any
	}{
		{convert, counts, 200, int64(4)},
		{convert, takeFails{t, counts, store.ErrUnavailable, new(atomic.Int64)}, 503, ""},
		{"/api/usage?days=0", counts, 400, ""},
		{"/api/usage", counts, 200, int64(4)},
	} {
		w.store = test.store
		if got := w.get(t, test.target, bearer); got.Code != test.status {
			t.Errorf("%d: got %d %s, want %d", i, got.Code, got.Body, test.status)
		}
		limit, _ := w.last.Lookup("http.tollgate.limit")
		remaining, _ := w.last.Lookup("http.tollgate.remaining")
		if limit != int64(5) || remaining != test.want {
			t.Errorf("%d: got %v of %v left, want %v of 5", i, remaining, limit, test.want)
		}
	}
	// Without a limit of the day, the first one is shown.
	month := policy.LimitConfig{Endpoint: "convert", Period: "month", Limit: 9}
	for want, limits := range map[any][]policy.LimitConfig{int64(9): {month, {Endpoint: "convert", Period: "second", Limit: 8}}, "unlimited": nil} {
		w := newWorld(t, func(p *policy.Config) {
			p.Plans[0].Limits, p.Plans[0].MoreLimits = map[string]*policy.Limit{"convert": nil}, limits
		})
		w.get(t, convert, w.account(t, "acc_1"))
		if limit, _ := w.last.Lookup("http.tollgate.limit"); limit != want {
			t.Errorf("got %v, want %v", limit, want)
		}
	}
}

// TestLargestLimit: the largest limit has one digit more than an integer of
// a structured field. Its headers are still valid.
func TestLargestLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *policy.Config) { p.Plans[0].Limits["convert"] = new(policy.Limit(policy.MaxLimit)) })
	const want = `"convert";q=999999999999999;w=86400 "convert";r=999999999999999;t=43200`
	if got := rateLimit(w.get(t, convert, w.account(t, "acc_1"))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRecordedRequest: the record of a call has the client's request, also
// after a handler behind the gate has changed it.
func TestRecordedRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.next = func(rw http.ResponseWriter, r *http.Request) error {
		r.Method, r.URL.Path = http.MethodPost, "/rewritten"
		rw.WriteHeader(http.StatusOK)
		return nil
	}
	w.get(t, convert, w.account(t, "acc_1"))
	calls, err := w.db.Recent(t.Context(), "acc_1", noon)
	if err != nil || len(calls) != 1 || calls[0].Method != http.MethodGet || calls[0].Path != convert {
		t.Errorf("got %+v, %v", calls, err)
	}
}

// deleting is a store whose account is deleted as soon as it has granted
// something to it, and put again.
type deleting struct {
	*storetest.Store
	again bool
}

func (d deleting) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	grant, err := d.Store.Grant(ctx, hash, now)
	if err == nil {
		err = d.DeleteAccount(ctx, grant.Account)
	}
	if err == nil && d.again {
		_, err = storetest.PutAccount(ctx, d.Book, store.Account{ID: grant.Account, Plan: grant.Plan, CreatedAt: now})
	}
	return grant, err
}

// TestDeletedBeforeTake: a call is refused if its account is deleted before
// it is counted. It does not count for a new account of that id.
func TestDeletedBeforeTake(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		w := newWorld(t, nil)
		bearer := w.account(t, "acc_1")
		w.gate.Store = func() (gate.Store, error) { return deleting{w.db, again}, nil }
		w.next = noUpstream(t)
		got := w.get(t, convert, bearer)
		if got.Code != http.StatusUnauthorized || !strings.Contains(got.Body.String(), `"invalid_token"`) {
			t.Errorf("put again %t: got %d %s", again, got.Code, got.Body)
		}
		if n := w.used(t, "acc_1", "convert", noon); n != 0 {
			t.Errorf("put again %t: counted %d", again, n)
		}
	}
}

// TestDeletedBeforeRecord: a call whose account is deleted before it ends is
// not among the recent calls of a new account of that id.
func TestDeletedBeforeRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	w.next = func(rw http.ResponseWriter, r *http.Request) error {
		if err := w.db.DeleteAccount(r.Context(), "acc_1"); err != nil {
			return err
		}
		w.account(t, "acc_1")
		rw.WriteHeader(http.StatusOK)
		return nil
	}
	if answer := w.get(t, convert, bearer); answer.Code != http.StatusOK {
		t.Errorf("got %d, want the upstream's answer", answer.Code)
	}
	if calls, err := w.db.Recent(t.Context(), "acc_1", noon); len(calls) != 0 || err != nil {
		t.Errorf("the next account has the calls %+v, %v", calls, err)
	}
}

// TestTwiceInAChain: a second gate passes a request that the first one has
// passed, also after a rewrite between them.
func TestTwiceInAChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	upstream := w.next
	w.next = func(rw http.ResponseWriter, r *http.Request) error {
		r.URL.Path = "/api/internal"
		r.Header.Set("X-Forwarded-Uri", "/between")
		return w.gate.Serve(rw, r, handlerFunc(func(rw http.ResponseWriter, r *http.Request) error {
			if r.Header.Get("X-Forwarded-Uri") != "/between" || r.Header.Get("Tollgate-Account") != "acc_1" {
				t.Errorf("the upstream got %v", r.Header)
			}
			return upstream(rw, r)
		}))
	}
	answer := w.get(t, convert, bearer)
	if want := `"convert";r=4;`; answer.Code != http.StatusOK || !strings.HasPrefix(answer.Header().Get("Ratelimit"), want) {
		t.Errorf("got %d, RateLimit %q, want %s", answer.Code, answer.Header().Get("Ratelimit"), want)
	}
}

// TestStoreFails: the answer is 503 if the store cannot be reached or does not
// know whether it counted the call. The upstream sees nothing. The call is not
// repeated and not given back.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) { c.Refund = policy.RefundServerErrors })
	bearer := w.account(t, "acc_1")
	w.next = noUpstream(t)
	var takes atomic.Int64
	for want, open := range map[int64]func() (gate.Store, error){
		0: func() (gate.Store, error) { return nil, errors.New("secret detail") },
		1: func() (gate.Store, error) { return takeFails{t, w.store, store.ErrUnknown, &takes}, nil },
	} {
		takes.Store(0)
		w.gate.Store = open
		got := w.get(t, convert, bearer)
		if got.Code != 503 || got.Header().Get("Retry-After") != "5" || strings.Contains(got.Body.String(), "detail") || !strings.Contains(got.Body.String(), `"unavailable"`) || takes.Load() != want {
			t.Errorf("got %d %v %s after asking %d times, want %d", got.Code, got.Header(), got.Body, takes.Load(), want)
		}
	}
}
