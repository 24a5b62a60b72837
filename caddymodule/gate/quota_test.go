package gate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	location, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// TestWindow: the headers have the true length of the day and the true time
// to its end, also where clocks change.
func TestWindow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone, at string // the local time
		want     string
		reset    string
	}{
		"ordinary day":           {"Europe/Berlin", "2127-01-15 18:30:00", `"convert";q=5;w=86400 "convert";r=4;t=19800`, "2127-01-16T00:00:00+01:00"},
		"hour lost, before":      {"Europe/Berlin", "2127-03-30 00:00:00", `"convert";q=5;w=82800 "convert";r=4;t=82800`, "2127-03-31T00:00:00+02:00"},
		"hour lost, after":       {"Europe/Berlin", "2127-03-30 12:00:00", `"convert";q=5;w=82800 "convert";r=4;t=43200`, "2127-03-31T00:00:00+02:00"},
		"hour won, before":       {"Europe/Berlin", "2127-10-26 00:00:00", `"convert";q=5;w=90000 "convert";r=4;t=90000`, "2127-10-27T00:00:00+01:00"},
		"hour won, after":        {"Europe/Berlin", "2127-10-26 12:00:00", `"convert";q=5;w=90000 "convert";r=4;t=43200`, "2127-10-27T00:00:00+01:00"},
		"midnight is skipped":    {"America/Santiago", "2127-09-06 12:00:00", `"convert";q=5;w=86400 "convert";r=4;t=43200`, "2127-09-07T01:00:00-03:00"},
		"day begins at one":      {"America/Santiago", "2127-09-07 12:00:00", `"convert";q=5;w=82800 "convert";r=4;t=43200`, "2127-09-08T00:00:00-03:00"},
		"half an hour":           {"Australia/Lord_Howe", "2127-04-06 00:00:00", `"convert";q=5;w=88200 "convert";r=4;t=88200`, "2127-04-07T00:00:00+10:30"},
		"a nanosecond is left":   {"UTC", "2127-01-15 23:59:59.999999999", `"convert";q=5;w=86400 "convert";r=4;t=1`, "2127-01-16T00:00:00Z"},
		"a second and a bit":     {"UTC", "2127-01-15 23:59:58.5", `"convert";q=5;w=86400 "convert";r=4;t=2`, "2127-01-16T00:00:00Z"},
		"the first instant":      {"UTC", "2127-01-15 00:00:00", `"convert";q=5;w=86400 "convert";r=4;t=86400`, "2127-01-16T00:00:00Z"},
		"three quarters of hour": {"Asia/Kathmandu", "2127-01-15 12:00:00", `"convert";q=5;w=86400 "convert";r=4;t=43200`, "2127-01-16T00:00:00+05:45"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(p *policy.Config) { p.Timezone = c.zone })
			at, err := time.ParseInLocation("2006-01-02 15:04:05", c.at, zone(t, c.zone))
			if err != nil {
				t.Fatal(err)
			}
			w.set(at)
			bearer := w.account(t, "acc_1")
			if got := rateLimit(w.get(t, convert, bearer)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			for range 4 {
				w.get(t, convert, bearer)
			}
			got := w.get(t, convert, bearer)
			_, seconds, _ := strings.Cut(c.want, ";t=")
			if got.Code != 429 || got.Header().Get("Retry-After") != seconds || !strings.Contains(got.Body.String(), `"resets_at":"`+c.reset+`"`) {
				t.Errorf("got %d, Retry-After %q, %s", got.Code, got.Header().Get("Retry-After"), got.Body)
			}
			checkWait(t, w, bearer, at, seconds)
		})
	}
}

// checkWait holds Retry-After to its word: whoever waits so long is
// admitted, and one second less is too little.
func checkWait(t *testing.T, w *world, bearer string, at time.Time, seconds string) {
	t.Helper()
	n, err := strconv.Atoi(seconds)
	if err != nil {
		t.Fatal(err)
	}
	for wait, want := range map[time.Duration]int{
		time.Duration(n-1) * time.Second: 429,
		time.Duration(n) * time.Second:   200,
	} {
		w.set(at.Add(wait))
		if got := w.get(t, convert, bearer); got.Code != want {
			t.Errorf("after %v: got %d, want %d", wait, got.Code, want)
		}
	}
}

// TestMidnight: a day begins with all calls left. If the clock is set back
// to the day before, that day's calls still count.
func TestMidnight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	evening := time.Date(2127, 1, 15, 23, 59, 0, 0, time.UTC)
	morning := evening.Add(2 * time.Minute)
	for i, step := range []struct {
		at   time.Time
		want int
	}{
		{evening, 200}, {evening, 200}, {evening, 200}, {evening, 200}, {evening, 200}, {evening, 429},
		{morning, 200}, {morning, 200},
		{evening, 429}, // the clock was set back
		{morning, 200}, {morning, 200}, {morning, 200}, {morning, 429},
		{evening, 429},
		{evening.AddDate(0, 0, -1), 200}, // a day without calls
		{morning, 429},
	} {
		w.set(step.at)
		if got := w.get(t, convert, bearer); got.Code != step.want {
			t.Errorf("step %d: got %d, want %d", i, got.Code, step.want)
		}
	}
	if a, b := w.used(t, "acc_1", "convert", evening), w.used(t, "acc_1", "convert", morning); a != 5 || b != 5 {
		t.Errorf("counted %d and %d, want 5 and 5", a, b)
	}
}

// TestCallOverMidnight: a call is counted and given back on the day on which
// it began.
func TestCallOverMidnight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	evening := time.Date(2127, 1, 15, 23, 59, 59, 0, time.UTC)
	morning := evening.Add(2 * time.Second)
	w.set(morning)
	w.get(t, convert, bearer)
	w.set(evening)
	w.next = func(http.ResponseWriter, *http.Request) error {
		if n := w.used(t, "acc_1", "convert", evening); n != 1 {
			t.Errorf("counted %d while under way, want 1", n)
		}
		w.set(morning)
		return failure(http.StatusBadGateway)
	}
	answer, err := w.ask("GET", convert, "", "Authorization: Bearer "+bearer)
	if err != nil || answer.Code != 502 || rateLimit(answer) != `"convert";q=5;w=86400 "convert";r=5;t=1` {
		t.Errorf("got %d %s (%v)", answer.Code, rateLimit(answer), err)
	}
	if a, b := w.used(t, "acc_1", "convert", evening), w.used(t, "acc_1", "convert", morning); a != 0 || b != 1 {
		t.Errorf("counted %d and %d, want 0 and 1", a, b)
	}
}

// TestLimitChanges: a change of a limit applies to the next call, and earlier
// calls count.
func TestLimitChanges(t *testing.T) {
	t.Parallel()
	limits := func(n policy.Limit) func(*policy.Config) {
		return func(c *policy.Config) { c.Plans[0].Limits["convert"] = &n }
	}
	w := newWorld(t, limits(5))
	bearer := w.account(t, "acc_1")
	for range 5 {
		w.get(t, convert, bearer)
	}
	for _, step := range []struct {
		limit policy.Limit
		code  int
		want  string
	}{
		{3, 429, `"convert";q=3;w=86400 "convert";r=0;t=43200`},
		{7, 200, `"convert";q=7;w=86400 "convert";r=1;t=43200`},
		{policy.Limit(store.Unlimited), 200, " "},
		{0, 429, `"convert";q=0;w=86400 "convert";r=0;t=43200`},
		{8, 200, `"convert";q=8;w=86400 "convert";r=0;t=43200`},
	} {
		c := policy.Config{
			Endpoints: []policy.EndpointConfig{{Name: "convert", Pattern: "GET /api/convert/{from}/{amount}/{to}"}},
			Plans:     []policy.PlanConfig{{Name: "small", Limits: map[string]*policy.Limit{"convert": &step.limit}}},
		}
		w.configure(t, c)
		if got := w.get(t, convert, bearer); got.Code != step.code || rateLimit(got) != step.want {
			t.Errorf("limit %d: got %d %s, want %d %s", step.limit, got.Code, rateLimit(got), step.code, step.want)
		}
	}
}

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
		recent, err := w.store.Recent(t.Context(), "acc_1", w.clock())
		if n := w.used(t, "acc_1", "convert", noon); n != want || err != nil || len(recent) != 1 || recent[0].Status != 500 {
			t.Errorf("%s: counted %d, want %d; recent %+v (%v)", rule, n, want, recent, err)
		}
	}
}

// TestOutcomes: each outcome is counted once, for its endpoint.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	for range 6 {
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

// TestFlushFirst: the headers are complete if a handler flushes before it
// writes.
func TestFlushFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	w.next = func(w http.ResponseWriter, _ *http.Request) error {
		return http.NewResponseController(w).Flush()
	}
	got := w.get(t, convert, bearer).Result()
	defer got.Body.Close()
	if got.Header.Get("Ratelimit") == "" || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v", got.Header)
	}
}

// TestStoreFails: the answer is 503. The upstream sees nothing, and nothing
// is counted or given back.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer := w.account(t, "acc_1")
	w.gate.Store = func() (gate.Store, error) { return nil, errors.New("secret detail") }
	w.next = func(http.ResponseWriter, *http.Request) error {
		t.Error("the upstream was asked")
		return nil
	}
	got := w.get(t, convert, bearer)
	if got.Code != 503 || got.Header().Get("Retry-After") != "5" || strings.Contains(got.Body.String(), "detail") || !strings.Contains(got.Body.String(), `"unavailable"`) {
		t.Errorf("got %+v", got)
	}
	if n := w.used(t, "acc_1", "convert", noon); n != 0 {
		t.Errorf("counted %d", n)
	}
}

// takeFails is a store that grants and fails to count.
type takeFails struct {
	t *testing.T
	store.Store
	err   error
	takes *atomic.Int64
}

func (f takeFails) GiveBack(context.Context, store.Call) error {
	f.t.Error("a call was given back")
	return nil
}

func (f takeFails) Take(context.Context, store.Call, []store.Limit, []store.Room) (bool, error) {
	f.takes.Add(1)
	return false, f.err
}

// TestUnknownOutcome: a call is refused, not repeated and not given back if
// the store does not know whether it counted the call.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) { c.Refund = policy.RefundServerErrors })
	bearer := w.account(t, "acc_1")
	var takes atomic.Int64
	w.gate.Store = func() (gate.Store, error) { return takeFails{t, w.store, store.ErrUnknown, &takes}, nil }
	w.next = func(http.ResponseWriter, *http.Request) error {
		t.Error("the upstream was asked")
		return nil
	}
	got := w.get(t, convert, bearer)
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") != "5" || !strings.Contains(got.Body.String(), `"unavailable"`) {
		t.Errorf("got %d %v %s", got.Code, got.Header(), got.Body)
	}
	if n := takes.Load(); n != 1 {
		t.Errorf("the store was asked %d times, want once", n)
	}
}

// TestRemainingIsKnown: logs and other handlers get the remaining calls only
// after the limits were checked.
func TestRemainingIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	bearer, counts := w.account(t, "acc_1"), w.store
	for i, test := range []struct {
		target string
		store  store.Store
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
	calls, err := w.store.Recent(t.Context(), "acc_1", noon)
	if err != nil || len(calls) != 1 || calls[0].Method != http.MethodGet || calls[0].Path != convert {
		t.Errorf("got %+v, %v", calls, err)
	}
}

// deleting is a store whose account is deleted as soon as it has granted
// something to it, and put again.
type deleting struct {
	store.Store
	again bool
}

func (d deleting) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	grant, err := d.Store.Grant(ctx, hash, now)
	if err == nil {
		err = d.DeleteAccount(ctx, grant.Account)
	}
	if err == nil && d.again {
		_, err = storetest.PutAccount(ctx, d, store.Account{ID: grant.Account, Plan: grant.Plan, CreatedAt: now})
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
		w.gate.Store = func() (gate.Store, error) { return deleting{w.store, again}, nil }
		w.next = func(http.ResponseWriter, *http.Request) error {
			t.Error("the upstream was asked")
			return nil
		}
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
		if err := w.store.DeleteAccount(r.Context(), "acc_1"); err != nil {
			return err
		}
		w.account(t, "acc_1")
		rw.WriteHeader(http.StatusOK)
		return nil
	}
	if answer := w.get(t, convert, bearer); answer.Code != http.StatusOK {
		t.Errorf("got %d, want the upstream's answer", answer.Code)
	}
	if calls, err := w.store.Recent(t.Context(), "acc_1", noon); len(calls) != 0 || err != nil {
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

// TestFailedAndAgain: a handler that answers instead of a failed upstream
// does not get the mark of a call that was given back, or of a login attempt
// that has ended, nor the token or the password.
func TestFailedAndAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.gate.PassErrors = true
	failing := handlerFunc(func(http.ResponseWriter, *http.Request) error { return failure(http.StatusBadGateway) })
	call := marked(httptest.NewRequest("GET", convert, nil))
	call.Header.Set("Authorization", "Bearer "+w.account(t, "acc_1"))
	login := marked(httptest.NewRequest("POST", "/api/login", strings.NewReader(person)))
	login.Header.Set("Content-Type", "application/json")
	for _, r := range []*http.Request{call, login} {
		var failed failure
		if err := w.gate.Serve(httptest.NewRecorder(), r, failing); !errors.As(err, &failed) {
			t.Fatalf("%s: got %v", r.URL, err)
		}
	}
	w.gate.PassErrors = false
	w.next = wrong
	for range 5 {
		w.login(t)
	}
	for r, want := range map[*http.Request]int{call: http.StatusUnauthorized, login: http.StatusBadRequest} {
		answer := httptest.NewRecorder()
		err := w.gate.Serve(answer, r, handlerFunc(func(http.ResponseWriter, *http.Request) error {
			t.Errorf("%s was let through", r.URL)
			return nil
		}))
		if answer.Code != want || err != nil {
			t.Errorf("%s again: got %d, %v, want %d", r.URL, answer.Code, err, want)
		}
	}
}
