package gate_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/feature/explain"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestExplain explains requests, and then sends them: the gate answers what the
// explanation says. Explaining changes nothing.
func TestExplain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request string
		cost    int64
		prepare func(*testing.T, *world)
		last    string // the last step
	}{
		"admitted":                         {request: "GET " + convert, last: "proxy"},
		"HEAD":                             {request: "HEAD " + convert, last: "proxy"},
		"elements":                         {request: "POST " + batchPath, cost: 3, last: "proxy"},
		"usage":                            {request: "GET /api/usage?days=7", last: "proxy"},
		"login":                            {request: "POST /api/login", last: "proxy"},
		"open path":                        {request: "GET /open", last: "proxy"},
		"absolute":                         {request: "GET http://gate" + convert, last: "proxy"},
		"two readings":                     {request: "GET /api//convert", last: "path"},
		"name":                             {request: "GET /api/names/@types%2fnode;a%25", last: "proxy"},
		"name, two readings":               {request: "GET /api/names/x%2f..%2fy", last: "path"},
		"name at a pattern of one segment": {request: "GET /api/rates/a%2fb", last: "path"},
		"login with a name":                {request: "POST /api/login/a%2fb", last: "path"},
		"other method of a name":           {request: "DELETE /api/names/@types%2fnode", last: "route"},
		"TRACE":                            {request: "TRACE " + convert, last: "path"},
		"unknown path":                     {request: "GET /api/nothing", last: "route"},
		"other method":                     {request: "DELETE " + convert, last: "route"},
		"like a login":                     {request: "POST /API/login", last: "route"},
		"token in query":                   {request: "GET " + convert + "?access_token=x", last: "token"},
		"disabled":                         {request: "GET " + convert, prepare: disable, last: "token"},
		"address":                          {request: "GET " + convert, prepare: changeKey(func(k *store.Key) { k.Addresses = networks("203.0.113.0/24") }), last: "address"},
		"own address":                      {request: "GET " + convert, prepare: changeKey(func(k *store.Key) { k.Addresses = networks("192.0.2.0/24") }), last: "proxy"},
		"plan that is gone":                {request: "GET " + convert, prepare: onPlan("gone"), last: "entitlement"},
		"ability":                          {request: "GET " + convert, prepare: changeKey(func(k *store.Key) { k.Abilities = []string{"usage"} }), last: "entitlement"},
		"bad parameter":                    {request: "GET /api/usage?days=0", last: "entitlement"},
		"cost above limit":                 {request: "GET /api/rates/EUR", last: "cost"},
		"many elements":                    {request: "POST " + batchPath, cost: 6, last: "cost"},
		"quota":                            {request: "GET " + convert, prepare: exhaust, last: "quota"},
		"pace": {request: "GET " + convert, prepare: func(t *testing.T, w *world) {
			t.Helper()
			w.override(t, "acc_1", override(store.Limit{Endpoint: "convert", Period: store.Hour, Max: 1}, 0))
			w.get(t, convert, w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "own"}))
		}, last: "quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := pricedWorld(t, map[string]*policy.Limit{"convert": number(5), "rates": number(4), "batch": number(5), "usage": number(5), "names": number(5)})
			bearer := w.account(t, "acc_1")
			if c.prepare != nil {
				c.prepare(t, w)
			}
			q := explain.Question{From: netip.MustParseAddr("192.0.2.1"), Cost: c.cost}
			q.Method, q.Target, _ = strings.Cut(c.request, " ")
			account, err := w.db.Account(t.Context(), "acc_1")
			if err != nil {
				t.Fatal(err)
			}
			key, err := w.db.Key(t.Context(), "acc_1", "key_acc_1")
			if err != nil {
				t.Fatal(err)
			}
			q.Account, q.Key = &account, &key
			used, outcomes := w.used(t, "acc_1", "convert", noon), maps.Clone(w.outcomes)
			x, err := explain.Explain(t.Context(), w.gate.Options, q)
			if err != nil {
				t.Fatal(err)
			}
			if n := w.used(t, "acc_1", "convert", noon); n != used || !maps.Equal(w.outcomes, outcomes) {
				t.Errorf("explaining counts: %d calls, outcomes %v", n-used, w.outcomes)
			}
			body := person
			if c.cost > 0 {
				body = items(int(c.cost))
			}
			r := marked(httptest.NewRequest(q.Method, q.Target, strings.NewReader(body)))
			r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + bearer}}
			answer := httptest.NewRecorder()
			if err := w.gate.Serve(answer, r, w.next); err != nil {
				t.Fatal(err)
			}
			compareExplained(t, x, answer, c.last)
			special := strings.ContainsAny(q.Target, "%;")
			if first := x.Steps[0]; first.OK && strings.HasPrefix(first.Message, "Each way to read the path") != special {
				t.Errorf("%s: got %q", q.Target, first.Message)
			}
		})
	}
}

// compareExplained checks an explanation against the answer of the gate.
func compareExplained(t *testing.T, x api.Explanation, answer *httptest.ResponseRecorder, last string) {
	t.Helper()
	at := slices.IndexFunc(x.Steps, func(s api.ExplainedStep) bool { return !s.OK })
	if end := len(x.Steps) - 1; x.Steps[end].Step != last || x.Passes != x.Admitted || x.Admitted != (at < 0) || at >= 0 && at != end {
		t.Errorf("got %+v, want the last step %s", x, last)
	}
	if x.Admitted {
		if answer.Code != http.StatusOK {
			t.Errorf("got %d %s, want it admitted: %+v", answer.Code, answer.Body, x)
		}
		return
	}
	var refusal struct{ Message, Code string }
	if err := json.Unmarshal(answer.Body.Bytes(), &refusal); err != nil {
		t.Fatal(err)
	}
	retry := ""
	if x.RetryAfter != nil {
		retry = strconv.FormatInt(*x.RetryAfter, 10)
	}
	if answer.Code != *x.Status || refusal.Code != *x.Code || refusal.Message != x.Message || answer.Header().Get("Retry-After") != retry {
		t.Errorf("got %d %s, Retry-After %q, want %+v", answer.Code, answer.Body, answer.Header().Get("Retry-After"), x)
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
		got, err := explain.Explain(t.Context(), w.gate.Options, explain.Question{Method: "GET", Target: test.target, Account: &account})
		if err != nil || got.Mode != "shadow" || got.Admitted || got.Message != test.want || got.Passes != strings.HasSuffix(test.want, "the request passes.") {
			t.Errorf("%s: got %+v, %v, want %q", test.target, got, err, test.want)
		}
	}
}

// TestExplainIgnoresWhoAsks: a user who asks for an explanation is not the user
// of the explained request.
func TestExplainIgnoresWhoAsks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}", Plan: "small"}
	})
	w.identity = "operator"
	got, err := explain.Explain(t.Context(), w.gate.Options, explain.Question{Method: "GET", Target: convert})
	if err != nil || got.Code == nil || *got.Code != "unauthenticated" || len(w.enrolled) > 0 {
		t.Errorf("got %+v, %v, enrolled %v", got, err, w.enrolled)
	}
}

// TestExplainIdentity: with the option identity, an account without a key has sent no
// token.
func TestExplainIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) { c.Identity = &policy.IdentityConfig{Placeholder: "{http.auth.user.id}"} })
	question := explain.Question{Method: "GET", Target: convert, Account: &store.Account{ID: "acc_1", Plan: "small", Disabled: true}}
	got, err := explain.Explain(t.Context(), w.gate.Options, question)
	if err != nil || got.Message != "The account is disabled or was deleted." || got.Steps[len(got.Steps)-1].Message != "The account acc_1 is disabled." {
		t.Errorf("got %+v, %v", got, err)
	}
}
