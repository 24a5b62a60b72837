package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

func TestPlans(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	config := controltest.Config()
	config.Endpoints[1].Cost = 5
	config.Endpoints[2].CostMember = "conversions"
	starter := &config.Plans[1]
	starter.Limits["currencies"] = nil
	starter.MoreLimits = []policy.LimitConfig{
		{Endpoint: "convert", Period: "month", Limit: 20000},
		{Endpoint: "all", Limit: 1500},
		{Endpoint: "all", Period: "second", Limit: 10},
		{Endpoint: "batch", Period: "month", Limit: policy.Limit(store.Unlimited)},
	}
	config.Plans[2].MoreLimits = []policy.LimitConfig{{Endpoint: "batch", Limit: 70}, {Endpoint: "usage", Period: "hour", Limit: 1000000000000000}}
	g.Configure(t, config)
	const want = `{"plans":[{"name":"free","limits":{},"more_limits":[]},` +
		`{"name":"starter","limits":{"batch":50,"convert":1000,"currencies":null,"usage":1000},"more_limits":[` +
		`{"endpoint":"convert","period":"month","limit":20000},{"endpoint":"all","period":"day","limit":1500},` +
		`{"endpoint":"all","period":"second","limit":10}]},` +
		`{"name":"business","limits":{"batch":70,"convert":100000,"currencies":null,"usage":null},"more_limits":[` +
		`{"endpoint":"usage","period":"hour","limit":1000000000000000}]}],` +
		`"endpoints":[{"name":"currencies","method":"GET","path":"/api/currencies","patterns":["GET /api/currencies"],"ability":"currencies","cost":1,"cost_member":null},` +
		`{"name":"convert","method":"GET","path":"/api/convert/{from}/{amount}/{to}","patterns":["GET /api/convert/{from}/{amount}/{to}"],"ability":"convert","cost":5,"cost_member":null},` +
		`{"name":"batch","method":"POST","path":"/api/convert/batch","patterns":["POST /api/convert/batch"],"ability":"convert","cost":1,"cost_member":"conversions"},` +
		`{"name":"usage","method":"GET","path":"/api/usage","patterns":["GET /api/usage"],"ability":"usage","cost":1,"cost_member":null}],"timezone":"Europe/Berlin","day":"2126-11-20"}` + "\n"
	if got := g.Call(t, "GET", "/tollgate/plans", "").Body.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	g.Configure(t, policy.Config{})
	const empty = `{"plans":[],"endpoints":[],"timezone":"UTC","day":"2126-11-20"}` + "\n"
	if got := g.Call(t, "GET", "/tollgate/plans", "").Body.String(); got != empty {
		t.Errorf("after a reload: got %s, want %s", got, empty)
	}
}

func TestPutAccount(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	const path = "/tollgate/accounts/acc_1"
	created := "2126-11-20T09:00:00Z"
	for i, step := range []struct {
		body     string
		plan     string
		disabled bool
	}{
		{`{}`, "free", false},
		{`{"plan":"starter"}`, "starter", false},
		{`{"disabled":true}`, "starter", true},
		{`{"plan":"business"}`, "business", true},
		{`{"plan":null,"disabled":null}`, "business", true},
		{`{"plan":"free","disabled":false}`, "free", false},
	} {
		want := map[string]any{"account": "acc_1", "plan": step.plan, "label": "", "disabled": step.disabled, "created_at": created}
		got := g.Must(t, http.StatusOK, "PUT", path, step.body)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("step %d %s (-want +got):\n%s", i, step.body, diff)
		}
		if diff := cmp.Diff(want, g.Must(t, http.StatusOK, "GET", path, "")); diff != "" {
			t.Errorf("step %d %s, read again (-want +got):\n%s", i, step.body, diff)
		}
		g.Advance(time.Hour)
	}
}

// TestPutAccountRefusals: a request that two parsers could read differently, or
// that is wrong in another way, is refused and changes nothing.
func TestPutAccountRefusals(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	longest := `{"plan":"free"` + strings.Repeat(" ", 16<<10-15) + `}`
	for _, test := range []struct {
		target, media, body string
		status              int
		code, message       string // a part of the message
	}{
		{"acc_1", "application/json; charset=UTF-8", `{}`, 200, "", ""},
		{"acc_1", "Application/JSON", `{"plan":null}`, 200, "", ""},
		{"acc_1", "", longest, 200, "", ""},
		{"acc_1", "", longest + " ", 413, "body_too_large", "longer than 16384 bytes"},
		{"acc_1", "text/plain", `{}`, 415, "unsupported_media_type", ""},
		{"acc_1", "application/x-www-form-urlencoded", `plan=free`, 415, "unsupported_media_type", ""},
		{"acc_1", "application/json; charset=utf-16", `{}`, 415, "unsupported_media_type", ""},
		{"acc_1", "application/json; charset", `{}`, 415, "unsupported_media_type", ""},
		{"acc_1", "", ``, 400, "invalid_request", "body is required"},
		{"acc_1", "", `{"plan":`, 400, "invalid_request", "not valid JSON"},
		{"acc_1", "", `{"plan":"free"}{}`, 400, "invalid_request", "not valid JSON from byte 15"},
		{"acc_1", "", "{\"label\":\"\xff\"}", 400, "invalid_request", "not valid JSON"},
		{"acc_1", "", `{"label":"\ud800"}`, 400, "invalid_request", "not valid JSON"},
		{"acc_1", "", `{"plan":"free","plan":"starter"}`, 400, "invalid_request", `duplicate member "plan"`},
		{"acc_1", "", `{"limit":7}`, 400, "invalid_request", "limit"},
		{"acc_1", "", `{"Plan":"starter"}`, 400, "invalid_request", `"Plan"`},
		{"acc_1", "", `{"plan":1}`, 400, "invalid_request", "body.plan: expected string"},
		{"acc_1", "", `[]`, 400, "invalid_request", "expected object"},
		{"acc_1", "", `{"plan":"gold"}`, 400, "unknown_plan", "Plans: free, starter, business."},
		{"acc_1", "", `{"plan":""}`, 400, "unknown_plan", ""},
		{"acc_1", "", `{"label":"` + strings.Repeat("ä", 201) + `"}`, 400, "invalid_label", ""},
		{"acc_1", "", `{"label":"a\u202eb"}`, 400, "invalid_label", ""},
		{"acc_1?days=1", "", `{}`, 400, "unknown_parameter", `"days". Allowed here: none.`},
		{"acc_1?x=%zz", "", `{}`, 400, "invalid_request", "query"},
		{"acc_1?x=1;y=2", "", `{}`, 400, "invalid_request", "query"},
		{"acc%201", "", `{}`, 400, "invalid_account", ""},
		{"acc%2F1", "", `{}`, 400, "invalid_account", ""},
		{"%2e%2e", "", `{}`, 400, "invalid_account", ""},
		{"acc%0a", "", `{}`, 400, "invalid_account", ""},
		{strings.Repeat("x", 65), "", `{}`, 400, "invalid_account", ""},
	} {
		r := httptest.NewRequest(http.MethodPut, "/tollgate/accounts/"+test.target, strings.NewReader(test.body))
		r.Header.Set("Authorization", "Bearer "+controltest.Secret)
		if test.media != "" {
			r.Header.Set("Content-Type", test.media)
		}
		w := httptest.NewRecorder()
		g.Handled.ServeHTTP(w, r)
		var refused struct{ Message, Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil || w.Code != test.status || refused.Code != test.code || !strings.Contains(refused.Message, test.message) {
			t.Errorf("%s %s %.80s: got %d %s, want %d %s %s", test.target, test.media, test.body, w.Code, w.Body, test.status, test.code, test.message)
		}
		if test.status != http.StatusOK && (w.Header().Get("Content-Type") != "application/json; charset=utf-8" || w.Header().Get("Cache-Control") != "no-store") {
			t.Errorf("%s: got %v", test.target, w.Header())
		}
	}
	if got := g.Must(t, http.StatusOK, "GET", "/tollgate/accounts", "")["accounts"]; len(got.([]any)) != 1 {
		t.Errorf("a refused call created %v", got)
	}
	for _, id := range []string{strings.Repeat("x", 64), "a", ".a", "a@example.com", "0", "-", "_"} {
		g.Account(t, id, "free")
	}
	for body, code := range map[io.Reader]string{
		iotest.ErrReader(io.ErrUnexpectedEOF): "invalid_request", iotest.ErrReader(controltest.Late{}): "request_timeout",
		http.MaxBytesReader(httptest.NewRecorder(), io.NopCloser(strings.NewReader(`{"plan":"free"}`)), 4): "body_too_large",
	} {
		r := httptest.NewRequest(http.MethodPut, "/tollgate/accounts/acc_1", body)
		r.Header.Set("Authorization", "Bearer "+controltest.Secret)
		w := httptest.NewRecorder()
		g.Handled.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), `"code":"`+code+`"`) {
			t.Errorf("a body that cannot be read: got %d %s, want %s", w.Code, w.Body, code)
		}
	}
}

// An operator who removes a plan from the configuration must still be
// able to move accounts away from it, and to free.
func TestPlanThatIsGone(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	g.Configure(t, policy.Config{Plans: []policy.PlanConfig{{Name: "gold"}}})
	if got := g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"disabled":true}`)["plan"]; got != "starter" {
		t.Errorf("the plan changed to %v by itself", got)
	}
	g.Refused(t, http.StatusForbidden, "account_disabled", "POST", "/tollgate/accounts/acc_1/keys", `{"name":"ci"}`)
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"disabled":false}`)
	g.Refused(t, http.StatusForbidden, "plan_required", "POST", "/tollgate/accounts/acc_1/keys", `{"name":"ci"}`)
	g.Must(t, http.StatusOK, "GET", "/tollgate/accounts/acc_1/usage", "")
	g.Account(t, "acc_1", "free")
}

// TestLookUp: a name is an id, or else a label. The lookup changes nothing.
func TestLookUp(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for _, account := range [][2]string{{"one", "Shop"}, {"two", "Shop"}, {"three", "SHOP"}, {"shop", "three"}, {"none", ""}} {
		g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/"+account[0], fmt.Sprintf(`{"label":%q}`, account[1]))
	}
	before := len(g.Published())
	for body, want := range map[string]string{
		`{"name":"one"}`: "one", `{"name":"shop"}`: "shop", `{"name":"Shop"}`: "one two", `{"name":"SHOP"}`: "three", `{"name":"sHoP"}`: "one three two",
		`{"name":"three"}`: "three", `{"name":" three "}`: "three", `{"name":"sho"}`: "", `{"name":" "}`: "", `{"name":"stranger"}`: "",
		`{"name":"one","id_only":true}`: "one", `{"name":"Shop","id_only":true}`: "", `{"name":"a/b","id_only":true}`: "",
	} {
		var got []string
		for _, account := range g.Must(t, http.StatusOK, "POST", "/tollgate/accounts/lookup", body)["accounts"].([]any) {
			got = append(got, account.(map[string]any)["account"].(string))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	for _, body := range []string{`{"name":""}`, `{}`, `{"name":"` + strings.Repeat("a", 201) + `"}`} {
		if w := g.Call(t, "POST", "/tollgate/accounts/lookup", body); w.Code != http.StatusBadRequest {
			t.Errorf("%s: got %d %s", body, w.Code, w.Body)
		}
	}
	if after := len(g.Published()); after != before {
		t.Errorf("got %d events, want %d", after, before)
	}
}

// TestLookUpOfMany: the lookup reads all accounts, and its answer is bounded.
func TestLookUpOfMany(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for first := 0; first < 2500; first += 500 {
		ids := make([]string, 500)
		for n := range ids {
			ids[n] = fmt.Sprintf("acc_%04d", first+n)
		}
		_, errs := g.Opened().ChangeAccounts(t.Context(), ids, func(n int, account *store.Account, _ bool) error {
			account.Label = "many"
			if account.ID == "acc_2400" {
				account.Label = "last"
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{"last": 1, "many": 100, "MANY": 100} {
		if got := g.Must(t, http.StatusOK, "POST", "/tollgate/accounts/lookup", fmt.Sprintf(`{"name":%q}`, name))["accounts"].([]any); len(got) != want {
			t.Errorf("%s: got %d accounts, want %d", name, len(got), want)
		}
	}
}

// TestNotFoundNamesWhat: a 404 tells whether the account or the key is missing.
func TestNotFoundNamesWhat(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"plan":"starter"}`)
	const noAccount, noKey = "There is no such account.", "The account has no such key."
	for request, want := range map[string]string{
		"GET accounts/x": noAccount, "DELETE accounts/x": noAccount, "GET accounts/x/keys": noAccount, "DELETE accounts/x/logins": noAccount,
		"GET accounts/x/limits": noAccount, "GET accounts/x/usage": noAccount, "DELETE accounts/x/usage": noAccount,
		"DELETE accounts/x/keys/key_x": noAccount, "DELETE accounts/acc_1/keys/key_x": noKey,
		"POST accounts/x/keys/key_x/rotate": noAccount, "POST accounts/acc_1/keys/key_x/rotate": noKey,
	} {
		method, path, _ := strings.Cut(request, " ")
		got := g.Must(t, http.StatusNotFound, method, "/tollgate/"+path, "")
		if got["message"] != want || got["code"] != "not_found" {
			t.Errorf("%s: got %v, want %s", request, got, want)
		}
	}
}

// TestFindAccounts filters accounts over several pages.
func TestFindAccounts(t *testing.T) {
	t.Parallel()
	c := newGate(t).Client()
	for id, change := range map[string]api.AccountChange{
		"acc_1": {Plan: new("starter")}, "ACC_2": {Plan: new("starter"), Disabled: new(true)},
		"acc_3": {Plan: new("business")}, "other": {Plan: new("starter")},
	} {
		if _, err := c.PutAccount(t.Context(), id, change); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		filter api.AccountQuery
		want   string
	}{
		"all":      {api.AccountQuery{}, "ACC_2 acc_1 acc_3 other"},
		"plan":     {api.AccountQuery{Plan: "starter"}, "ACC_2 acc_1 other"},
		"search":   {api.AccountQuery{Search: "aCc"}, "ACC_2 acc_1 acc_3"},
		"disabled": {api.AccountQuery{Disabled: "true"}, "ACC_2"},
		"enabled":  {api.AccountQuery{Disabled: "false"}, "acc_1 acc_3 other"},
		"both":     {api.AccountQuery{Plan: "starter", Search: "acc", Disabled: "false"}, "acc_1"},
		"none":     {api.AccountQuery{Plan: "gold"}, ""},
	} {
		for _, limit := range []int{1, 2, 4, 5} {
			found, err := client.All(func(after string) ([]api.Account, *string, error) {
				test.filter.After, test.filter.Limit = after, limit
				page, err := c.Accounts(t.Context(), test.filter)
				return page.Accounts, page.Next, err
			})
			var got []string
			for _, a := range found {
				got = append(got, a.Account)
			}
			if err != nil || strings.Join(got, " ") != test.want {
				t.Errorf("%s with limit %d: got %v, %v, want %s", name, limit, got, err, test.want)
			}
		}
	}
}

// TestSearchKey: the last 4 characters of a token find its account, in the case of
// the token.
func TestSearchKey(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	key := store.Key{ID: "key_1", Account: "acc_1", Kind: token.Key, Name: "ci", CreatedAt: g.Now(), Hint: "tgk_…aZ91"}
	if err := g.Opened().CreateKey(t.Context(), key, token.Foreign("x")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{"aZ91": 1, "az91": 0, "Z91": 0, "tgk_": 0} {
		if got := g.Must(t, http.StatusOK, "GET", "/tollgate/accounts?search="+text, "")["accounts"].([]any); len(got) != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

// TestListRefusals: invalid parameters are refused.
func TestListRefusals(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=", "after=", "limit=1&limit=2", "after=" + strings.Repeat("x", 65)} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", "/tollgate/accounts?"+query, "")
	}
	g.Refused(t, http.StatusBadRequest, "unknown_parameter", "GET", "/tollgate/accounts?page=2", "")
	if got := g.Call(t, "GET", "/tollgate/accounts", "").Body.String(); got != `{"accounts":[],"next":null}`+"\n" {
		t.Errorf("none: got %s", got)
	}
}
