package gate_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// explained is an account whose requests are explained and then sent.
type explained struct {
	*simulation
	bearers []string
	ids     []string
}

// TestExplain explains random requests of random keys, and then sends them: the
// gate answers what the explanation says. Explaining changes nothing.
func TestExplain(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	rapid.Check(t, func(r *rapid.T) {
		e := &explained{simulation: &simulation{T: r, disk: d, account: d.id("acc")}}
		e.world = &world{now: noon, outcomes: map[string]int{}, store: d.db, next: func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(http.StatusOK)
			return nil
		}}
		config := e.config("Europe/Berlin")
		config.Guard, config.Logins = []string{"/api/"}, []string{"POST /login"}
		e.world.configure(d.t, config)
		e.change()
		for range 3 {
			e.createKey()
		}
		r.Repeat(map[string]func(*rapid.T){
			"ask":    e.with(e.ask),
			"ask 2":  e.with(e.ask),
			"ask 3":  e.with(e.ask),
			"ask 4":  e.with(e.ask),
			"change": e.with(e.change),
			"revoke": e.with(e.revoke),
			"wait": e.with(func() {
				wait := rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, 5 * time.Hour, 400 * time.Hour}).Draw(e.T, "wait")
				e.world.set(e.world.clock().Add(wait))
			}),
		})
	})
}

// change draws plan, state and overrides of the account.
func (e *explained) change() {
	account := store.Account{
		ID: e.account, Plan: rapid.SampledFrom([]string{"one", "one", "two", "gone"}).Draw(e.T, "plan"), CreatedAt: noon,
		Disabled: rapid.IntRange(0, 9).Draw(e.T, "disabled") == 0,
	}
	for _, l := range e.distinct(2, e.planLimit) {
		o := store.Override{Limit: l, CreatedAt: noon}
		if rapid.Bool().Draw(e.T, "ends") {
			o.ExpiresAt = e.world.clock().Add(time.Minute)
		}
		account.Overrides = append(account.Overrides, o)
	}
	_, err := storetest.PutAccount(e.t.Context(), e.db, account)
	e.check(err)
}

func (e *explained) createKey() {
	tok := newToken(e.t)
	key := store.Key{
		ID: e.id("key"), Account: e.account, Kind: token.Key, CreatedAt: noon, Limits: e.keyLimits(),
		Abilities: rapid.SampledFrom([][]string{{"batch", "convert", "history", "usage"}, {"convert"}, {"batch", "history"}}).Draw(e.T, "abilities"),
	}
	key.Name = key.ID
	if rapid.Bool().Draw(e.T, "expires") {
		key.ExpiresAt = noon.Add(time.Hour)
	}
	if rapid.Bool().Draw(e.T, "addresses") {
		key.Addresses = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	}
	e.check(e.db.CreateKey(e.t.Context(), key, tok.Hash()))
	e.ids, e.bearers = append(e.ids, key.ID), append(e.bearers, tok.Reveal())
}

func (e *explained) revoke() {
	if rapid.IntRange(0, 9).Draw(e.T, "revoke") == 0 {
		e.check(e.db.RevokeKey(e.t.Context(), e.account, rapid.SampledFrom(e.ids).Draw(e.T, "key"), e.world.clock()))
	}
}

func (e *explained) ask() {
	q := gate.Question{
		Method: rapid.SampledFrom([]string{"GET", "GET", "GET", "POST", "HEAD", "PUT", "TRACE"}).Draw(e.T, "method"),
		Target: rapid.SampledFrom([]string{
			"/api/convert", "/api/convert", "/api/history", "/api/batch", "/api/batch", "/api/usage", "/api/usage?days=7", "/api/usage?days=0",
			"/api/convert?access_token=x", "/api/convert/", "/API/convert", "/api//convert", "/api/x/../convert", "/api/%2e%2e/x",
			"/api/conv%65rt", "/api/convert;v=1", "/nothing", "/LOGIN", "*", "http://gate/api/convert", "/open/a%2Fb",
		}).Draw(e.T, "target"),
		From: netip.MustParseAddr(rapid.SampledFrom([]string{"203.0.113.9", "198.51.100.1", "2001:db8::1"}).Draw(e.T, "from")),
		Cost: int64(rapid.IntRange(1, 9).Draw(e.T, "elements")),
	}
	if rapid.Bool().Draw(e.T, "endpoint") { // most others are refused early
		request := rapid.SampledFrom([]string{"GET /api/convert", "GET /api/history", "POST /api/batch", "POST /api/batch", "GET /api/usage"}).Draw(e.T, "request")
		q.Method, q.Target, _ = strings.Cut(request, " ")
	}
	body := `{"items":[` + strings.TrimSuffix(strings.Repeat("1,", int(q.Cost)), ",") + `]}`
	r := marked(httptest.NewRequest(q.Method, q.Target, strings.NewReader(body)))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = netip.AddrPortFrom(q.From, 1234).String()
	if at := rapid.IntRange(-1, len(e.ids)-1).Draw(e.T, "key"); at >= 0 {
		r.Header.Set("Authorization", "Bearer "+e.bearers[at])
		account, err := e.db.Account(e.t.Context(), e.account)
		e.check(err)
		key, err := e.db.Key(e.t.Context(), e.account, e.ids[at])
		e.check(err)
		q.Account, q.Key = &account, &key
	}
	before := e.state()
	got, err := e.world.gate.Explain(e.t.Context(), q)
	e.check(err)
	again, err := e.world.gate.Explain(e.t.Context(), q)
	e.check(err)
	if diff := cmp.Diff(got, again) + cmp.Diff(before, e.state()); diff != "" {
		e.Fatalf("explaining %s %s changes something:\n%s", q.Method, q.Target, diff)
	}
	answer := httptest.NewRecorder()
	e.check(e.world.gate.Serve(answer, r, e.world.next))
	e.compare(q, got, answer)
}

// state is all that a request could change, except the level of paces.
func (e *explained) state() (state struct {
	Counts   []store.Count
	OfKeys   [][]store.Count
	Recent   int
	Outcomes string
}) {
	ctx := e.t.Context()
	today := e.world.gate.Policy.Calendar.At(e.world.clock()).Day
	read := func(key string) []store.Count {
		counts, err := e.db.Counts(ctx, e.account, key, today-60, today)
		e.check(err)
		slices.SortFunc(counts, func(a, b store.Count) int {
			return 2*int(a.Day-b.Day) + strings.Compare(a.Endpoint, b.Endpoint)
		})
		return counts
	}
	state.Counts = read("")
	for _, id := range e.ids {
		state.OfKeys = append(state.OfKeys, read(id))
	}
	recent, err := e.db.Recent(ctx, e.account, e.world.clock())
	e.check(err)
	outcomes, err := json.Marshal(e.world.outcomes)
	e.check(err)
	state.Recent, state.Outcomes = len(recent), string(outcomes)
	return state
}

// compare checks an explanation against the answer of the gate.
func (e *explained) compare(q gate.Question, x api.Explanation, answer *httptest.ResponseRecorder) {
	if x.Passes != x.Admitted {
		e.Fatalf("%s %s: passes is %t, want admitted: %+v", q.Method, q.Target, x.Passes, x)
	}
	if x.Admitted {
		if answer.Code != http.StatusOK {
			e.Fatalf("%s %s: got %d %s, want it admitted: %+v", q.Method, q.Target, answer.Code, answer.Body, x)
		}
		return
	}
	var refusal struct{ Message, Code string }
	if q.Method == http.MethodHead { // an answer without a body
		refusal.Code, refusal.Message = *x.Code, x.Message
	} else {
		e.check(json.Unmarshal(answer.Body.Bytes(), &refusal))
	}
	retry := ""
	if x.RetryAfter != nil {
		retry = strconv.FormatInt(*x.RetryAfter, 10)
	}
	if answer.Code != *x.Status || refusal.Code != *x.Code || refusal.Message != x.Message || answer.Header().Get("Retry-After") != retry {
		e.Fatalf("%s %s: got %d %s, Retry-After %q, want %+v", q.Method, q.Target, answer.Code, answer.Body, answer.Header().Get("Retry-After"), x)
	}
	last := x.Steps[len(x.Steps)-1]
	if last.OK || slices.ContainsFunc(x.Steps[:len(x.Steps)-1], func(s api.ExplainedStep) bool { return !s.OK }) {
		e.Fatalf("the steps are %+v, want the last one only to refuse", x.Steps)
	}
}

func (e *explained) check(err error) {
	if err != nil {
		e.Fatal(err)
	}
}

// TestExplainInShadow checks that an explanation tells which refusals the
// mode shadow lets pass.
func TestExplainInShadow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) { c.Mode = policy.Shadow })
	account := store.Account{ID: "acc_1", Plan: "gone"}
	for _, test := range []struct {
		target   string
		disabled bool
		want     string
	}{
		{convert, false, "The account's plan has no access to the API. The mode is shadow: the request passes."},
		{"/api/nothing", false, "There is nothing here. The mode is shadow: the request passes."},
		{"/api/usage", false, "The account's plan has no access to the API. Mode shadow also refuses the request."},
		{convert, true, "The token is not valid. It may be mistyped, expired or revoked. Mode shadow also refuses the request."},
		{convert + "?access_token=x", true, "The token is not valid. It may be mistyped, expired or revoked. Mode shadow also refuses the request."},
		{convert + "?access_token=x", false, "Send exactly one token, in one header, and none in the query. The mode is shadow: the request passes."},
		{"/api/usage?access_token=x", true, "Send exactly one token, in one header, and none in the query. Mode shadow also refuses the request."},
		{"/api//convert", false, "The path can be read in more than one way. Send it in its plain form. Mode shadow also refuses the request."},
	} {
		account.Disabled = test.disabled
		got, err := w.gate.Explain(t.Context(), gate.Question{Method: "GET", Target: test.target, Account: &account})
		if err != nil || got.Mode != "shadow" || got.Admitted || got.Message != test.want || got.Passes != strings.HasSuffix(test.want, "the request passes.") {
			t.Errorf("%s: got %+v, %v, want %q", test.target, got, err, test.want)
		}
	}
}
