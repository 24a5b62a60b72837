package introspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/introspect"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const introspectionSecret = "another secret + with 32 characters/="

// gate is a gate with introspection, in front of its control API.
type gate struct{ *controltest.Checked }

// open is a gate with a secret for introspection.
type open struct {
	*controltest.Gate
	secret string
}

func (o open) IntrospectionSecret() string { return o.secret }

func introspector(t *testing.T) (*gate, *client.Client) {
	t.Helper()
	return introspectorOver(t, new(controltest.Steps))
}

func introspectorOver(t *testing.T, s *controltest.Steps) (*gate, *client.Client) {
	t.Helper()
	g := controltest.CheckedOver(t, s)
	g.Handled = introspect.Handler(g.Handled, open{g.Gate, introspectionSecret}, slog.New(slog.NewTextHandler(g, nil)))
	return &gate{g}, g.Client()
}

// ask asks about a token.
func (g *gate) ask(t *testing.T, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/tollgate/introspect", strings.NewReader(form.Encode()))
	r.Header.Set("Authorization", "Bearer "+introspectionSecret)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	g.Handled.ServeHTTP(w, r)
	g.CheckAnswer(t, r, w)
	return w
}

// TestIntrospect asks about tokens in all states.
func TestIntrospect(t *testing.T) {
	t.Parallel()
	g, c := introspector(t)
	g.AcceptForeign(t)
	ctx := t.Context()
	issue := func(account, plan string, request api.KeyRequest) api.IssuedKey {
		t.Helper()
		if _, err := c.PutAccount(ctx, account, api.AccountChange{Plan: &plan}); err != nil {
			t.Fatal(err)
		}
		key, err := c.CreateKey(ctx, account, request)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	plain := issue("acc_1", "starter", api.KeyRequest{Name: "plain", Abilities: []string{"usage", "convert"}})
	expiring := issue("acc_1", "starter", api.KeyRequest{Name: "expiring", TTL: "1h"})
	login := issue("acc_1", "starter", api.KeyRequest{Kind: "login"})
	bound := issue("acc_1", "starter", api.KeyRequest{Name: "bound", Addresses: []string{"203.0.113.0/24", "2001:db8::/32"}})
	revoked := issue("acc_1", "starter", api.KeyRequest{Name: "revoked"})
	if err := c.RevokeKey(ctx, "acc_1", revoked.ID); err != nil {
		t.Fatal(err)
	}
	disabled := issue("acc_off", "starter", api.KeyRequest{Name: "ci"})
	downgraded := issue("acc_poor", "starter", api.KeyRequest{Name: "ci"})
	narrower := issue("acc_2", "starter", api.KeyRequest{Name: "ci"})
	useless := issue("acc_3", "starter", api.KeyRequest{Name: "ci", Abilities: []string{"usage"}})
	for account, change := range map[string]api.AccountChange{
		"acc_off": {Disabled: new(true)}, "acc_poor": {Plan: new("free")}, "acc_2": {Plan: new("business")}, "acc_3": {Plan: new("business")},
	} {
		if _, err := c.PutAccount(ctx, account, change); err != nil {
			t.Fatal(err)
		}
	}
	prefixed := controltest.ForeignToken(2)
	controltest.KeyResults(t, c, false, controltest.KeyLine("acc_1", controltest.ForeignToken(1), ""), controltest.KeyLine("acc_1", prefixed, `,"prefix":"12","abilities":["convert"]`))
	at := controltest.Start.Unix()
	active := func(key api.Key, scope, plan string) string {
		exp := ""
		if key.ExpiresAt != nil {
			exp = fmt.Sprintf(`"exp":%d,`, key.ExpiresAt.Unix())
		}
		return fmt.Sprintf(`{"active":true,"scope":%q,"sub":%q,"client_id":%q,%s"iat":%d,"token_type":"Bearer","plan":%q}`, scope, key.Account, key.ID, exp, at, plan)
	}
	foreign := map[string]api.Key{}
	keys, err := c.Keys(ctx, "acc_1", client.KeyFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		foreign[key.Name] = key
	}
	const inactive, all = `{"active":false}`, "convert currencies usage"
	tests := []struct{ name, token, from, want string }{
		{"a key", plain.Token, "", active(plain.Key, "convert usage", "starter")},
		{"a key from anywhere", plain.Token, "192.0.2.1", active(plain.Key, "convert usage", "starter")},
		{"a key that expires", expiring.Token, "", active(expiring.Key, all, "starter")},
		{"a login", login.Token, "", active(login.Key, all, "starter")},
		{"an address", bound.Token, "203.0.113.9", active(bound.Key, all, "starter")},
		{"a mapped address", bound.Token, "::ffff:203.0.113.9", active(bound.Key, all, "starter")},
		{"an address of IPv6 with a zone", bound.Token, "2001:db8::1%eth0", active(bound.Key, all, "starter")},
		{"another address", bound.Token, "203.0.114.1", inactive},
		{"no address", bound.Token, "", inactive},
		{"a plan with fewer abilities", narrower.Token, "", active(narrower.Key, "convert currencies", "business")},
		{"a key without effect", useless.Token, "", active(useless.Key, "", "business")},
		{"a revoked key", revoked.Token, "", inactive},
		{"a disabled account", disabled.Token, "", inactive},
		{"a plan without access", downgraded.Token, "", inactive},
		{"an imported token", controltest.ForeignToken(1), "", active(foreign["imported"], all, "starter")},
		{"an imported token with its prefix", "12|" + prefixed, "", active(foreign["imported 2"], "convert", "starter")},
		{"an imported token without its prefix", prefixed, "", inactive},
		{"an imported token with another prefix", "13|" + prefixed, "", inactive},
		{"an unknown token", controltest.ForeignToken(3), "", inactive},
		{"a short token", "short", "", inactive},
		{"no token", "", "", inactive},
		{"a token with a wrong checksum", plain.Token[:len(plain.Token)-1] + "!", "", inactive},
		{"a token that is too long", strings.Repeat("x", 300), "", inactive},
	}
	check := func(name, token, from, want string) {
		t.Helper()
		form := url.Values{"token": {token}, "token_type_hint": {"refresh_token"}}
		if from != "" {
			form.Set("client_ip", from)
		}
		w := g.ask(t, form)
		if diff := cmp.Diff(want+"\n", w.Body.String()); diff != "" || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %d, %v (-want +got):\n%s", name, w.Code, w.Header(), diff)
		}
	}
	for _, test := range tests {
		check(test.name, test.token, test.from, test.want)
	}
	g.Configure(t, controltest.Config())
	check("an imported token without foreign_keys", controltest.ForeignToken(1), "", inactive)
	check("a key without foreign_keys", plain.Token, "", active(plain.Key, "convert usage", "starter"))
	g.Advance(time.Hour)
	check("an expired key", expiring.Token, "", inactive)
	if key, err := g.Opened().Key(ctx, "acc_1", plain.ID); err != nil || !key.LastUsedAt.IsZero() {
		t.Errorf("introspection touched the last use: %+v, %v", key, err)
	}
	if log := g.Log(); strings.Contains(log, plain.Token) || strings.Contains(log, introspectionSecret) {
		t.Errorf("a secret is in the log: %s", log)
	}
}

// TestIntrospectChanged: a token that ends while it is introspected is inactive.
func TestIntrospectChanged(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*book.Account){
		"nothing":  func(*book.Account) {},
		"revoked":  func(a *book.Account) { a.Keys[0].RevokedAt = time.Now().Add(-time.Second) },
		"expired":  func(a *book.Account) { a.Keys[0].ExpiresAt = time.Now().Add(-time.Second) },
		"disabled": func(a *book.Account) { a.Disabled = true },
		"deleted":  func(a *book.Account) { a.Exists = false },
	} {
		s := new(controltest.Steps)
		g, c := introspectorOver(t, s)
		if _, err := c.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
			t.Fatal(err)
		}
		key, err := c.CreateKey(t.Context(), "acc_1", api.KeyRequest{Name: "ci"})
		if err != nil {
			t.Fatal(err)
		}
		s.Confirmed = func() {
			err := s.Change(t.Context(), time.Now(), []string{"acc_1"}, func(_ int, a *book.Account) error { change(a); return nil })[0]
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		got := g.ask(t, url.Values{"token": {key.Token}}).Body.String()
		if active := got != "{\"active\":false}\n"; active != (name == "nothing") {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestIntrospectPlanUntil: a plan that has ended gives a token nothing, before the gate
// has written that into the account.
func TestIntrospectPlanUntil(t *testing.T) {
	t.Parallel()
	g, c := introspector(t)
	end := controltest.Start.Add(time.Hour)
	if _, err := c.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter"), PlanUntil: api.To(&end), Then: new("business")}); err != nil {
		t.Fatal(err)
	}
	key, err := c.CreateKey(t.Context(), "acc_1", api.KeyRequest{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"plan":"starter"`, `"plan":"business"`} {
		if got := g.ask(t, url.Values{"token": {key.Token}}).Body.String(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		g.Advance(time.Hour)
	}
}

// TestIntrospectionSecret: only its own secret opens introspection, and it
// opens nothing else.
func TestIntrospectionSecret(t *testing.T) {
	t.Parallel()
	g, _ := introspector(t)
	none := introspect.Handler(g.Handler(), open{g.Gate, ""}, slog.New(slog.DiscardHandler))
	basic := func(user, password string) []string {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.SetBasicAuth(user, password)
		return r.Header["Authorization"]
	}
	bearer := []string{"Bearer " + introspectionSecret}
	for name, c := range map[string]struct {
		handler        http.Handler
		method, target string
		fields         []string
		status         int
	}{
		"Bearer":                     {g.Handled, "POST", "/tollgate/introspect", bearer, 200},
		"Basic":                      {g.Handled, "POST", "/tollgate/introspect", basic("service", introspectionSecret), 200},
		"Basic without a user":       {g.Handled, "POST", "/tollgate/introspect", basic("", introspectionSecret), 200},
		"Basic of an OAuth client":   {g.Handled, "POST", "/tollgate/introspect", basic("service", url.QueryEscape(introspectionSecret)), 200},
		"the secret as the user":     {g.Handled, "POST", "/tollgate/introspect", basic(introspectionSecret, ""), 401},
		"nothing":                    {g.Handled, "POST", "/tollgate/introspect", nil, 401},
		"an empty token":             {g.Handled, "POST", "/tollgate/introspect", []string{"Bearer "}, 401},
		"an empty password":          {g.Handled, "POST", "/tollgate/introspect", basic("service", ""), 401},
		"a part of it":               {g.Handled, "POST", "/tollgate/introspect", []string{bearer[0][:20]}, 401},
		"the secret of the control":  {g.Handled, "POST", "/tollgate/introspect", []string{"Bearer " + controltest.Secret}, 401},
		"twice":                      {g.Handled, "POST", "/tollgate/introspect", []string{bearer[0], bearer[0]}, 401},
		"Basic and Bearer":           {g.Handled, "POST", "/tollgate/introspect", append(basic("service", introspectionSecret), "Bearer x"), 401},
		"the control API":            {g.Handled, "GET", "/tollgate/plans", bearer, 401},
		"the control API with Basic": {g.Handled, "GET", "/tollgate/plans", basic("service", introspectionSecret), 401},
		"another spelling":           {g.Handled, "POST", "/tollgate/%69ntrospect", bearer, 401},
		"another method":             {g.Handled, "GET", "/tollgate/introspect", bearer, 405},
		"not configured":             {none, "POST", "/tollgate/introspect", []string{"Bearer "}, 404},
		"not configured, no header":  {none, "POST", "/tollgate/introspect", nil, 404},
		"not configured, the secret": {none, "POST", "/tollgate/introspect", []string{"Bearer " + controltest.Secret}, 404},
	} {
		r := httptest.NewRequest(c.method, c.target, strings.NewReader("token=x"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header["Authorization"] = c.fields
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s: got %d, want %d: %s", name, w.Code, c.status, w.Body)
		}
		if c.status != http.StatusUnauthorized {
			continue
		}
		challenge, oauth := `Bearer realm="tollgate"`, ""
		if c.target == "/tollgate/introspect" {
			challenge, oauth = `Bearer realm="tollgate", Basic realm="tollgate"`, "invalid_client"
		}
		var refused struct{ Message, Code, Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil || refused.Code != "unauthenticated" || refused.Message == "" || refused.Error != oauth {
			t.Errorf("%s: got %s, %v; want the error %q", name, w.Body, err, oauth)
		}
		if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, []string{challenge}) {
			t.Errorf("%s: got the challenge %q, want %q", name, got, challenge)
		}
	}
	// The admin endpoint and the memory have no introspection.
	w := httptest.NewRecorder()
	feature.Handler(g, slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/tollgate/introspect", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("without the listener: got %d", w.Code)
	}
}

// TestIntrospectionForm checks what is refused before a token is looked up.
func TestIntrospectionForm(t *testing.T) {
	t.Parallel()
	g, _ := introspector(t)
	const form = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		media, body string
		down        error
		status      int
		code        string
	}{
		"a charset":             {form + "; charset=utf-8", "token=x", nil, 200, ""},
		"JSON":                  {"application/json", `{"token":"x"}`, nil, 415, "unsupported_media_type"},
		"no media type":         {"", "token=x", nil, 415, "unsupported_media_type"},
		"two media types":       {form + "\n" + form, "token=x", nil, 415, "unsupported_media_type"},
		"no token":              {form, "token_type_hint=x", nil, 400, "invalid_request"},
		"two tokens":            {form, "token=x&token=y", nil, 400, "invalid_request"},
		"a malformed body":      {form, "token=%zz", nil, 400, "invalid_request"},
		"a wrong address":       {form, "token=x&client_ip=example.com", nil, 400, "invalid_request"},
		"an empty address":      {form, "token=x&client_ip=", nil, 400, "invalid_request"},
		"two addresses":         {form, "token=x&client_ip=192.0.2.1&client_ip=192.0.2.2", nil, 400, "invalid_request"},
		"a long body":           {form, "token=" + strings.Repeat("x", 17<<10), nil, 413, "body_too_large"},
		"a store that is down":  {form, "token=x", errors.New("broken"), 503, "unavailable"},
		"an address of another": {form, "token=x&client_ip=192.0.2.1&client_id=y", nil, 200, ""},
	} {
		g.Break(c.down)
		r := httptest.NewRequest(http.MethodPost, "/tollgate/introspect", strings.NewReader(c.body))
		r.SetBasicAuth("service", introspectionSecret)
		if c.media != "" {
			r.Header["Content-Type"] = strings.Split(c.media, "\n")
		}
		w := httptest.NewRecorder()
		g.Handled.ServeHTTP(w, r)
		g.Break(nil)
		g.CheckAnswer(t, r, w)
		var refused struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &refused); err != nil || w.Code != c.status || refused.Code != c.code {
			t.Errorf("%s: got %d: %s, want %d %s", name, w.Code, w.Body, c.status, c.code)
		}
	}
}

// TestIntrospectRenamed: the scope has the ability of today after a rename.
func TestIntrospectRenamed(t *testing.T) {
	t.Parallel()
	g, _ := introspector(t)
	g.Account(t, "acc_1", "starter")
	key := g.Issue(t, `{"name":"first","abilities":["convert"]}`)
	config := controltest.Config()
	config.Endpoints[1].Name, config.Endpoints[1].Rename = "exchange", []string{"convert"}
	config.Endpoints[2].Ability = "exchange"
	config.Plans[1].Limits = controltest.Limits(map[string]int64{"exchange": 1000})
	config.Plans[2].Limits = controltest.Limits(map[string]int64{"exchange": 100000})
	g.Configure(t, config)
	if got := g.ask(t, url.Values{"token": {key.Token}}).Body.String(); !strings.Contains(got, `"scope":"exchange"`) {
		t.Errorf("got %s", got)
	}
}
