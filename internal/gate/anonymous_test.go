package gate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// openPolicy has the plan public, for calls without a key to convert.
func openPolicy(docs string, perAddress ...policy.AddressLimit) policy.Config {
	all := map[string]*policy.Limit{"convert": new(policy.Limit(5)), "rates": new(policy.Limit(5)), "usage": new(policy.Limit(5))}
	return policy.Config{
		Guard: []string{"/api/"}, Usage: "GET /api/usage", Docs: docs,
		Endpoints: []policy.EndpointConfig{{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}}, {Name: "rates", Patterns: []string{"GET /api/rates/{base}"}}},
		Plans:     []policy.PlanConfig{{Name: "public", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(6))}}, {Name: "small", Limits: all}},
		Anonymous: &policy.AnonymousConfig{Plan: "public", PerAddress: perAddress},
	}
}

// open makes a world with calls without a key.
func open(t testing.TB, docs string, perAddress ...policy.AddressLimit) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.configure(t, openPolicy(docs, perAddress...))
	if _, err := storetest.PutAccount(t.Context(), w.db.Book, store.Account{ID: policy.AnonymousAccount, Plan: "public", CreatedAt: noon}); err != nil {
		t.Fatal(err)
	}
	return w
}

// come makes a call without a key from an address.
func (w *world) come(t testing.TB, address string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	return w.comeTo(t, convert, address, headers...)
}

func (w *world) comeTo(t testing.TB, target, address string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := marked(httptest.NewRequest("GET", target, nil))
	r.RemoteAddr = address
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	answer := httptest.NewRecorder()
	if err := w.gate.Serve(answer, r, w.next); err != nil {
		t.Fatal(err)
	}
	return answer
}

// TestAnonymous: a call without a key counts for the account anonymous and for
// its address. The longest wait of both answers, and offers a key.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	w := open(t, "https://example.com/docs", policy.AddressLimit{Limit: 4, Period: "day"}, policy.AddressLimit{Limit: 2, Period: "minute"})
	var seen http.Header
	w.next = func(answer http.ResponseWriter, r *http.Request) error {
		seen = r.Header.Clone()
		answer.WriteHeader(200)
		return nil
	}
	got := w.come(t, "192.0.2.1", "Cookie: a=b")
	if got.Code != 200 || seen.Get("Tollgate-Account") != "anonymous" || seen.Get("Tollgate-Plan") != "public" || seen.Get("Tollgate-Abilities") != "convert" ||
		seen["Tollgate-Key"] != nil || seen["Cookie"] != nil || seen.Get("Tollgate-Assertion") == "" {
		t.Errorf("got %d, the service got %v", got.Code, seen)
	}
	const fields = `"convert";q=6;w=86400, "address";q=4;w=86400, "address-minute";q=2;w=60 "convert";r=5;t=43200, "address";r=3;t=43200, "address-minute";r=1;t=30`
	if rateLimit(got) != fields {
		t.Errorf("got %s, want %s", rateLimit(got), fields)
	}
	refuse := func(address, wait, code, body string) {
		t.Helper()
		before := w.used(t, "anonymous", "convert", w.clock())
		got := w.come(t, address)
		if got.Code != 429 || got.Header().Get("Retry-After") != wait || !strings.Contains(got.Body.String(), `"code":"`+code+`"`) || !strings.Contains(got.Body.String(), body) ||
			got.Header().Get("Link") != `<https://example.com/docs>; rel="service-doc"` || !strings.Contains(got.Body.String(), "Calls with an API key have limits of their own. The documentation of the API is at https://example.com/docs.") {
			t.Errorf("%s: got %d, %v, %s", address, got.Code, got.Header(), got.Body)
		}
		if now := w.used(t, "anonymous", "convert", w.clock()); now != before {
			t.Errorf("a refused call counted")
		}
	}
	w.come(t, "192.0.2.1")
	refuse("192.0.2.1", "30", "rate_limited", `"endpoint":"all","period":"minute","limit":2,"of":"address"`)
	w.set(noon.Add(30 * time.Second))
	if got := w.come(t, "192.0.2.1"); got.Code != 200 {
		t.Errorf("after the wait: got %d %s", got.Code, got.Body)
	}
	w.set(noon.Add(time.Minute))
	w.come(t, "::ffff:192.0.2.1")
	refuse("192.0.2.1", "43140", "quota_exceeded", `"endpoint":"all","period":"day","limit":4,"of":"address","resets_at":"2126-11-21T00:00:00Z"`)
	w.come(t, "2001:db8::1")
	w.come(t, "2001:db8::2:0:0:1") // the same /64
	refuse("2001:db8::3", "43140", "quota_exceeded", `"endpoint":"convert","period":"day","limit":6,"of":"account"`)
	refuse("192.0.2.2", "43140", "quota_exceeded", `"of":"account"`)
	w.set(noon.Add(12 * time.Hour))
	if got := w.come(t, "192.0.2.1"); got.Code != 200 {
		t.Errorf("after midnight: got %d %s", got.Code, got.Body)
	}
	if want := []string{"anonymous convert rate_limited", "anonymous convert quota_exceeded"}; !slices.Equal(w.refused[:2], want) {
		t.Errorf("reported %q, want %q", w.refused, want)
	}
}

// TestAnonymousNeverForCredentials: something that is meant as a credential is
// refused as ever, and another endpoint needs one.
func TestAnonymousNeverForCredentials(t *testing.T) {
	t.Parallel()
	w := open(t, "", policy.AddressLimit{Limit: 1, Period: "day"})
	valid := w.account(t, "acc_1")
	w.next = noUpstream(t)
	for _, c := range []struct {
		target string
		header string
		status int
	}{
		{convert, "Authorization: Bearer tgk_wrong", 401}, {convert, "Authorization: Bearer", 401}, {convert, "Authorization: Bearer ", 401}, {convert, "Authorization: ", 401},
		{convert, "Authorization: Basic YTpi", 401}, {convert, "Authorization: Digest a=b", 401}, {convert, "Authorization: " + valid, 401},
		{convert, "Sec-Websocket-Protocol: tollgate.bearer." + valid, 401}, {convert + "?api_key=x", "", 400}, {convert + "?access_token=" + valid, "", 400}, {convert, "X-Api-Key: " + valid, 401}, {convert, "X-Api-Key: tgk_wrong", 401},
		{"/api/rates/EUR", "", 401}, {"/api/usage", "", 401}, {"/api/else", "", 404},
	} {
		var headers []string
		if c.header != "" {
			headers = append(headers, c.header)
		}
		if got := w.comeTo(t, c.target, "192.0.2.1", headers...); got.Code != c.status {
			t.Errorf("%s %q: got %d %s, want %d", c.target, c.header, got.Code, got.Body, c.status)
		}
	}
	w.next = func(http.ResponseWriter, *http.Request) error { return nil }
	for name, headers := range map[string][]string{"anonymous": nil, "a key": {"Authorization: Bearer " + valid}} {
		if got := w.come(t, "192.0.2.1", headers...); got.Code != 200 {
			t.Errorf("%s: got %d %s", name, got.Code, got.Body)
		}
	}
	if got := w.come(t, "192.0.2.1"); got.Code != 429 {
		t.Errorf("the second call without a key: got %d", got.Code)
	}
	if got := w.come(t, "192.0.2.1", "Authorization: Bearer "+valid); got.Code != 200 || strings.Contains(rateLimit(got), "address") {
		t.Errorf("a key at a full address: got %d %s", got.Code, rateLimit(got))
	}
}

// TestAnonymousGetsItsPlaceBack: a call that the plan refuses, and one that no
// service answers, take nothing from the address. Mode shadow passes a call over
// the limit and counts nothing.
func TestAnonymousGetsItsPlaceBack(t *testing.T) {
	t.Parallel()
	w := open(t, "", policy.AddressLimit{Limit: 8, Period: "day"}, policy.AddressLimit{Limit: 8, Period: "hour"})
	left := func(want string) {
		t.Helper()
		if got := w.come(t, "192.0.2.1"); !strings.Contains(got.Header().Get("Ratelimit"), want) {
			t.Errorf("got %d %s, want %s", got.Code, rateLimit(got), want)
		}
	}
	service := w.next
	w.next = func(http.ResponseWriter, *http.Request) error { return failure(502) }
	if got := w.come(t, "192.0.2.1"); got.Code != 502 {
		t.Fatalf("got %d", got.Code)
	}
	w.gate.Wait()
	w.next = service
	for range 5 {
		w.come(t, "192.0.2.1")
	}
	left(`"address";r=2;t=43200, "address-hour";r=1;`) // a refund does not change paces
	for range 3 {
		left(`"convert";r=0;t=43200, "address";r=2;t=43200, "address-hour";r=1;`)
	}
	c := openPolicy("", policy.AddressLimit{Limit: 8, Period: "day"})
	c.Mode = policy.Shadow
	w.configure(t, c)
	w.override(t, "anonymous", store.Override{Limit: store.Limit{Endpoint: "convert", Period: store.Day, Max: store.Unlimited}})
	for range 10 { // the limiter is new
		if got := w.come(t, "192.0.2.1"); got.Code != 200 {
			t.Errorf("mode shadow: got %d %s", got.Code, got.Body)
		}
	}
	if n := w.used(t, "anonymous", "convert", noon); n != 6+8 {
		t.Errorf("mode shadow: counted %d calls, want 14", n)
	}
	if last := w.refused[len(w.refused)-1]; last != "anonymous convert quota_exceeded" && last != "anonymous convert rate_limited" {
		t.Errorf("mode shadow: reported %q", last)
	}
}

// TestAnonymousIsExact: 64 clients of one address call at once, and the plan and
// the address have different limits. Both are exact.
func TestAnonymousIsExact(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ perAddress, want int64 }{"the address is full": {5, 5}, "the plan is full": {7, 6}} {
		w := open(t, "", policy.AddressLimit{Limit: c.perAddress, Period: "day"}, policy.AddressLimit{Limit: c.perAddress, Period: "hour"})
		var admitted atomic.Int64
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() {
				for range 5 {
					if w.come(t, "192.0.2.1").Code == 200 {
						admitted.Add(1)
					}
				}
			})
		}
		group.Wait()
		if got := admitted.Load(); got != c.want || w.used(t, "anonymous", "convert", noon) != c.want {
			t.Errorf("%s: admitted %d and counted %d, want %d", name, got, w.used(t, "anonymous", "convert", noon), c.want)
		}
	}
}

// TestIdentityIsNotAnonymous: a user that another handler has authenticated has an
// account of its own, also if its name is anonymous.
func TestIdentityIsNotAnonymous(t *testing.T) {
	t.Parallel()
	w := open(t, "", policy.AddressLimit{Limit: 1, Period: "day"})
	c := openPolicy("", policy.AddressLimit{Limit: 1, Period: "day"})
	c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "public"}
	w.configure(t, c)
	w.identity = "anonymous"
	w.come(t, "192.0.2.1")
	if len(w.enrolled) != 1 || strings.HasPrefix(w.enrolled[0], "anonymous ") {
		t.Errorf("enrolled %q", w.enrolled)
	}
	w.identity = ""
	if got := w.come(t, "192.0.2.1"); got.Code != 200 || w.used(t, "anonymous", "convert", noon) != 1 {
		t.Errorf("without a user: got %d", got.Code)
	}
}

// TestSecondPassWithAKey: a request that passes the gate again with a key, as on an
// error route, is not held by the limits of its address any more.
func TestSecondPassWithAKey(t *testing.T) {
	t.Parallel()
	w := open(t, "", policy.AddressLimit{Limit: 20, Period: "day"}, policy.AddressLimit{Limit: 20, Period: "hour"})
	bearer := w.account(t, "acc_1")
	next := w.next
	for n := range 8 {
		w.next = func(http.ResponseWriter, *http.Request) error { return failure(http.StatusBadGateway) }
		r := marked(httptest.NewRequest("GET", convert, nil))
		r.RemoteAddr = "192.0.2.1"
		if err := w.gate.Serve(httptest.NewRecorder(), r, w.next); err != nil {
			t.Fatal(err)
		}
		w.next = next
		r.Header.Set("Authorization", "Bearer "+bearer)
		answer, want := httptest.NewRecorder(), 200
		if n >= 5 {
			want = 429
		}
		if err := w.gate.Serve(answer, r, w.next); err != nil || answer.Code != want || strings.Contains(rateLimit(answer), "address") {
			t.Errorf("call %d with a key: got %d %s (%v), want %d", n+1, answer.Code, rateLimit(answer), err, want)
		}
	}
}

// TestAnonymousInShadow: a call without a key stays as it is, since the service may
// know who calls, but it is counted.
func TestAnonymousInShadow(t *testing.T) {
	t.Parallel()
	w := open(t, "")
	c := openPolicy("", policy.AddressLimit{Limit: 2, Period: "day"})
	c.Mode = policy.Shadow
	w.configure(t, c)
	for range 3 {
		w.next = func(answer http.ResponseWriter, r *http.Request) error {
			if r.Header.Get("Cookie") != "session=1" || r.Header.Get("Tollgate-Account") != "" {
				t.Errorf("the service got %v", r.Header)
			}
			answer.WriteHeader(200)
			return nil
		}
		if got := w.come(t, "192.0.2.1", "Cookie: session=1"); got.Code != 200 || len(got.Header()) > 0 {
			t.Errorf("got %d %v", got.Code, got.Header())
		}
	}
	if n := w.used(t, "anonymous", "convert", noon); n != 2 {
		t.Errorf("counted %d, want 2: the third is above the limit", n)
	}
}

// TestAnonymousWithoutAnAccount: without the account, as before a configuration is
// in force for the first time, calls get 401.
func TestAnonymousWithoutAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.configure(t, openPolicy("", policy.AddressLimit{Limit: 1, Period: "day"}))
	w.next = noUpstream(t)
	if got := w.come(t, "192.0.2.1"); got.Code != 401 || len(w.enrolled) != 0 {
		t.Errorf("got %d %s, enrolled %q", got.Code, got.Body, w.enrolled)
	}
}

// TestAnonymousCost: an address counts what a call costs, and what the answer says
// in the end, also more than its limit.
func TestAnonymousCost(t *testing.T) {
	t.Parallel()
	w := open(t, "", policy.AddressLimit{Limit: 20, Period: "day"})
	c := openPolicy("", policy.AddressLimit{Limit: 20, Period: "day"})
	c.Endpoints[0].CostAnswer = &policy.CostAnswerConfig{Header: "Tollgate-Cost", Reserve: 10}
	c.Plans[0].Limits["convert"] = new(policy.Limit(1000))
	w.configure(t, c)
	cost := "4"
	w.next = func(answer http.ResponseWriter, _ *http.Request) error {
		answer.Header().Set("Tollgate-Cost", cost)
		answer.WriteHeader(200)
		return nil
	}
	for _, step := range []struct {
		cost, left string
	}{{"4", "r=16"}, {"0", "r=16"}, {"15", "r=1"}} {
		cost = step.cost
		got := w.come(t, "192.0.2.1")
		w.gate.Wait()
		if got.Code != 200 || !strings.Contains(got.Header().Get("Ratelimit"), `"address";`+step.left+";") {
			t.Errorf("cost %s: got %d %s, want %s", step.cost, got.Code, rateLimit(got), step.left)
		}
	}
	if got := w.come(t, "192.0.2.1"); got.Code != 429 || w.used(t, "anonymous", "convert", noon) != 19 {
		t.Errorf("got %d %s, used %d", got.Code, got.Body, w.used(t, "anonymous", "convert", noon))
	}
	if got := w.come(t, "192.0.2.2"); got.Code != 200 {
		t.Errorf("another address: got %d %s", got.Code, got.Body)
	}
	c.Endpoints[0].CostAnswer.Reserve = 21
	w.configure(t, c)
	if got := w.come(t, "192.0.2.2"); got.Code != 403 || !strings.Contains(got.Body.String(), "the limit of this address is 20 calls a day") {
		t.Errorf("above the limit: got %d %s", got.Code, got.Body)
	}
}

// TestForeseeAnonymous counts nothing.
func TestForeseeAnonymous(t *testing.T) {
	t.Parallel()
	w := open(t, "", policy.AddressLimit{Limit: 1, Period: "day"})
	r := marked(httptest.NewRequest("GET", convert, nil))
	r.RemoteAddr = "192.0.2.1:1234"
	for range 3 {
		if x := w.gate.Foresee(r, 0); x.Refusal != nil || !x.Anonymous || x.Account != "anonymous" || x.Rooms[1].Remaining != 1 {
			t.Errorf("got %+v", x)
		}
	}
	if got := w.come(t, "192.0.2.1"); got.Code != 200 {
		t.Errorf("got %d %s", got.Code, got.Body)
	}
	if x := w.gate.Foresee(r, 0); x.Refusal == nil || x.Refusal.Status != 429 || x.Step != "quota" {
		t.Errorf("got %+v", x)
	}
}

// TestAnonymousWhileTheLimiterFails: calls get 503, and count nothing. Where too many
// calls of an address wait for each other, that is no failure.
func TestAnonymousWhileTheLimiterFails(t *testing.T) {
	t.Parallel()
	w := open(t, "", policy.AddressLimit{Limit: 5, Period: "day"})
	w.next = noUpstream(t)
	for fault, want := range map[error]string{
		store.ErrUnavailable: "503 unavailable ", login.ErrContended: "429 too_many_concurrent 1",
	} {
		w.limiterFails = fmt.Errorf("asking: %w", fault)
		answer := w.come(t, "192.0.2.1")
		var body struct{ Code string }
		err := json.Unmarshal(answer.Body.Bytes(), &body)
		got := fmt.Sprint(answer.Code, " ", body.Code, " ", answer.Header().Get("Retry-After"))
		if n := w.used(t, "anonymous", "convert", noon); err != nil || !strings.HasPrefix(got, want) || n != 0 {
			t.Errorf("got %s (%v), counted %d, want %s", got, err, n, want)
		}
	}
}
