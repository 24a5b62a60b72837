package take_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/take"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

const takeSecret = "another secret + with 32 characters/="

// program is a gate for programs, in front of its control API.
type program struct{ *controltest.Checked }

// open is a gate with a secret for programs.
type open struct {
	*controltest.Gate
	secret string
}

func (o open) TakeSecret() string { return o.secret }

func newProgram(t *testing.T, change func(*policy.Config)) (*program, *client.Client) {
	t.Helper()
	g := controltest.CheckedOver(t, new(controltest.Steps))
	config := controltest.Config()
	if change != nil {
		change(&config)
	}
	g.Configure(t, config)
	g.Handled = take.Handler(g.Handled, open{g.Gate, takeSecret}, slog.New(slog.NewTextHandler(g, nil)))
	return &program{g}, g.Client()
}

// post posts a body as the program.
func (p *program) post(t *testing.T, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+takeSecret)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	p.Handled.ServeHTTP(w, r)
	p.CheckAnswer(t, r, w)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// TestTake shows the answers, and settles a call.
func TestTake(t *testing.T) {
	t.Parallel()
	p, c := newProgram(t, func(config *policy.Config) {
		config.Endpoints[1].CostAnswer = &policy.CostAnswerConfig{Header: "X-Cost", Reserve: 400}
		config.Endpoints = append(config.Endpoints, policy.EndpointConfig{
			Name: "chat", Patterns: []string{"POST /api/chat"}, CostAnswer: &policy.CostAnswerConfig{Header: "X-Cost", Bound: []string{"max_tokens"}},
		})
	})
	if _, err := c.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	key, err := c.CreateKey(t.Context(), "acc_1", api.KeyRequest{Name: "ci", Addresses: []string{"203.0.113.0/24"}})
	if err != nil {
		t.Fatal(err)
	}
	status, text := p.post(t, "/tollgate/take", `{"token":"`+key.Token+`","endpoint":"convert","client_ip":"203.0.113.9","id":"job-1"}`)
	var taken api.Taken
	if err := json.Unmarshal([]byte(text), &taken); err != nil || status != 200 {
		t.Fatalf("got %d %s", status, text)
	}
	end := time.Date(2126, 11, 20, 23, 0, 0, 0, time.UTC)
	want := api.Taken{
		Admitted: true, Account: "acc_1", Plan: "starter", Key: key.ID, Abilities: []string{"convert", "currencies", "usage"}, Call: taken.Call,
		Limits: []api.CallLimit{{Endpoint: "convert", Period: "day", Limit: 1000, Of: "account", Used: new(int64(400)), Remaining: 600, ResetsAt: &end}},
	}
	if diff := cmp.Diff(want, taken); diff != "" || taken.Call == "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, again := p.post(t, "/tollgate/take", `{"token":"`+key.Token+`","endpoint":"convert","client_ip":"203.0.113.9","id":"job-1"}`); again != text {
		t.Errorf("a repetition: got %s, want %s", again, text)
	}
	settle := "/tollgate/calls/" + taken.Call + "/settle"
	for _, test := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","cost":700}`, 200, `"code":"quota_reserved"`},
		{settle, `{"cost":17}`, 200, `{"call":"` + taken.Call + `","cost":17}`},
		{settle, `{"cost":17}`, 200, `{"call":"` + taken.Call + `","cost":17}`},
		{settle, `{"cost":18}`, 409, `"code":"call_settled"`},
		{settle, `{"cost":-1}`, 400, `"code":"invalid_request"`},
		{settle, `{}`, 400, `"code":"invalid_request"`},
		{"/tollgate/calls/call_x/settle", `{"cost":1}`, 404, `"code":"not_found"`},
		{"/tollgate/calls/acc_1/settle", `{"cost":1}`, 404, `"code":"not_found"`},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","cost":700}`, 200, `"admitted":true`},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","cost":700}`, 200, `"status":429,"code":"quota_reserved"`},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","id":"job-1","cost":2}`, 409, `"code":"call_exists"`},
		{"/tollgate/take", `{"token":"` + key.Token + `","endpoint":"convert"}`, 200, `{"admitted":false,"account":"acc_1","plan":"starter","key":"` + key.ID + `","status":403,"code":"address_not_allowed"`},
		{"/tollgate/take", `{"token":"tgk_nonsense","endpoint":"convert"}`, 200, `{"admitted":false,"status":401,"code":"invalid_token"`},
		{"/tollgate/take", `{"account":"acc_2","endpoint":"convert"}`, 200, `"status":401,"code":"invalid_token"`},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"usage"}`, 200, `"admitted":true`},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"other"}`, 400, `"code":"unknown_endpoint"`},
		{"/tollgate/take", `{"endpoint":"convert"}`, 400, "either token or account"},
		{"/tollgate/take", `{"token":"x","account":"acc_1","endpoint":"convert"}`, 400, "either token or account"},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","cost":0}`, 400, "cost"},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","client_ip":"example.com"}`, 400, `"code":"invalid_address"`},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","colour":1}`, 400, "colour"},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"chat"}`, 400, `must have a cost`},
		{"/tollgate/take", `{"account":"acc_1","account":"acc_2","endpoint":"convert"}`, 400, `"code":"invalid_request"`},
		{"/tollgate/take", `{"account":"acc_1","endpoint":"convert","id":"` + strings.Repeat("x", 201) + `"}`, 400, "id"},
		{"/tollgate/take", strings.Repeat(" ", 17<<10), 413, `"code":"body_too_large"`},
	} {
		if status, got := p.post(t, test.path, test.body); status != test.status || !strings.Contains(got, test.want) {
			t.Errorf("%s %.80s: got %d %s, want %d %s", test.path, test.body, status, got, test.status, test.want)
		}
	}
	p.Break(errors.New("broken"))
	for path, body := range map[string]string{"/tollgate/take": `{"account":"acc_1","endpoint":"convert"}`, settle: `{"cost":17}`} {
		if status, got := p.post(t, path, body); status != 503 {
			t.Errorf("%s without a store: got %d %s", path, status, got)
		}
	}
	if log := p.Log(); strings.Contains(log, key.Token) || strings.Contains(log, takeSecret) {
		t.Errorf("a secret is in the log: %s", log)
	}
}

// TestClient: the client tells a refused call from an answer of another server, and
// settles a call that costs nothing.
func TestClient(t *testing.T) {
	t.Parallel()
	p, control := newProgram(t, func(config *policy.Config) {
		config.Endpoints[1].CostAnswer = &policy.CostAnswerConfig{Header: "X-Cost", Reserve: 400}
	})
	if _, err := control.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(p.Handled)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, takeSecret)
	if err != nil {
		t.Fatal(err)
	}
	admitted, err := c.Take(t.Context(), api.Taking{Account: "acc_1", Endpoint: "convert"})
	if err != nil || !admitted.Admitted {
		t.Fatalf("got %+v, %v", admitted, err)
	}
	if err := c.SettleCall(t.Context(), admitted.Call, 0); err != nil {
		t.Errorf("a call that costs nothing: got %v", err)
	}
	if refused, err := c.Take(t.Context(), api.Taking{Account: "acc_1", Endpoint: "convert", Cost: 1001}); err != nil || refused.Admitted || refused.Code != "cost_above_limit" {
		t.Errorf("a refused call: got %+v, %v", refused, err)
	}
}

// TestTakeSecret: only its own secret opens taking, and it opens nothing else.
func TestTakeSecret(t *testing.T) {
	t.Parallel()
	p, _ := newProgram(t, nil)
	none := take.Handler(p.Handler(), open{p.Gate, ""}, slog.New(slog.DiscardHandler))
	basic := func(user, password string) []string {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header["Authorization"]
	}
	const path, settle = "/tollgate/take", "/tollgate/calls/call_x/settle"
	bearer := []string{"Bearer " + takeSecret}
	for name, c := range map[string]struct {
		handler        http.Handler
		method, target string
		fields         []string
		status         int
	}{
		"Bearer":                      {p.Handled, "POST", path, bearer, 400},
		"Bearer for a settlement":     {p.Handled, "POST", settle, bearer, 400},
		"Basic":                       {p.Handled, "POST", path, basic("service", takeSecret), 401},
		"nothing":                     {p.Handled, "POST", path, nil, 401},
		"nothing for a settlement":    {p.Handled, "POST", settle, nil, 401},
		"an empty token":              {p.Handled, "POST", path, []string{"Bearer "}, 401},
		"a part of it":                {p.Handled, "POST", path, []string{bearer[0][:20]}, 401},
		"the secret of the control":   {p.Handled, "POST", path, []string{"Bearer " + controltest.Secret}, 401},
		"that one for a settlement":   {p.Handled, "POST", settle, []string{"Bearer " + controltest.Secret}, 401},
		"twice":                       {p.Handled, "POST", path, []string{bearer[0], bearer[0]}, 401},
		"the control API":             {p.Handled, "GET", "/tollgate/plans", bearer, 401},
		"introspection":               {p.Handled, "POST", "/tollgate/introspect", bearer, 401},
		"the document":                {p.Handled, "GET", "/tollgate/openapi.json", bearer, 401},
		"another spelling":            {p.Handled, "POST", "/tollgate/%74ake", bearer, 401},
		"another spelling of calls":   {p.Handled, "POST", "/tollgate/c%61lls/call_x/settle", bearer, 401},
		"a path behind it":            {p.Handled, "POST", path + "/", bearer, 401},
		"dots behind calls":           {p.Handled, "GET", "/tollgate/calls/../plans", bearer, 404},
		"escaped dots":                {p.Handled, "GET", "/tollgate/calls/%2e%2e/plans", bearer, 404},
		"an escaped path behind it":   {p.Handled, "GET", "/tollgate/calls/..%2fplans", bearer, 404},
		"another operation":           {p.Handled, "GET", "/tollgate/calls/openapi.json", bearer, 404},
		"another method":              {p.Handled, "GET", path, bearer, 405},
		"another one of a settlement": {p.Handled, "PUT", settle, bearer, 405},
		"not configured":              {none, "POST", path, []string{"Bearer "}, 404},
		"not configured, no header":   {none, "POST", settle, nil, 404},
		"not configured, the secret":  {none, "POST", path, []string{"Bearer " + controltest.Secret}, 404},
	} {
		r := httptest.NewRequest(c.method, c.target, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.Header["Authorization"] = c.fields
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: got %d, want %d: %s", name, w.Code, c.status, w.Body)
		}
		if challenge := []string{`Bearer realm="tollgate"`}; w.Code == 401 && !strings.HasSuffix(c.target, "introspect") && !slices.Equal(w.Header()["Www-Authenticate"], challenge) {
			t.Errorf("%s: got the challenge %q", name, w.Header()["Www-Authenticate"])
		}
	}
	// The admin endpoint and the memory take no calls.
	w := httptest.NewRecorder()
	feature.Handler(p, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("without the listener: got %d", w.Code)
	}
}
