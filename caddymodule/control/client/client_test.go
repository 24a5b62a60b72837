package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
)

func connect(t *testing.T, base, secret string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(base, secret, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// code returns the stable word of a refusal, or the whole error.
func code(err error) string {
	var refused *apierror.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Code
	default:
		return err.Error()
	}
}

// Every call, once, against a gate on the loopback interface.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	gate, ctx := controltest.New(t), t.Context()
	base := gate.Serve(t)
	c := connect(t, base, controltest.Secret)
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}

	plans, err := c.Plans(ctx)
	check("plans", err)
	if len(plans.Plans) != 3 || *plans.Plans[1].Limits["convert"] != 1000 || plans.Timezone != "Europe/Berlin" || len(plans.Endpoints) != 4 {
		t.Errorf("plans: got %+v", plans)
	}
	if limit, listed := plans.Plans[2].Limits["currencies"]; !listed || limit != nil {
		t.Errorf("an unlimited endpoint: got %v, %v", limit, listed)
	}

	set, err := c.PublicKeys(ctx)
	check("public keys", err)
	if diff := cmp.Diff(gate.PublicKeys(), set); diff != "" || len(set.Keys) != 1 {
		t.Errorf("public keys (-want +got):\n%s", diff)
	}

	account, err := c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")})
	check("put", err)
	want := api.Account{Account: "acc_1", Plan: "starter", CreatedAt: controltest.Start}
	if diff := cmp.Diff(want, account); diff != "" {
		t.Errorf("put (-want +got):\n%s", diff)
	}
	account, err = c.Account(ctx, "acc_1")
	check("account", err)
	if diff := cmp.Diff(want, account); diff != "" {
		t.Errorf("account (-want +got):\n%s", diff)
	}
	_, err = c.PutAccount(ctx, "acc_2@example.com", api.AccountChange{Disabled: new(true)})
	check("put", err)
	page, err := c.Accounts(ctx, "", 1)
	check("accounts", err)
	if len(page.Accounts) != 1 || page.Next == nil || *page.Next != "acc_1" {
		t.Errorf("first page: got %+v", page)
	}
	page, err = c.Accounts(ctx, *page.Next, 0)
	check("accounts", err)
	if len(page.Accounts) != 1 || !page.Accounts[0].Disabled || page.Next != nil {
		t.Errorf("second page: got %+v", page)
	}

	key, err := c.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci", Abilities: []string{"convert"}, TTL: "30d"})
	check("create", err)
	if !strings.HasPrefix(key.Token, "tgk_") || key.ExpiresAt.Sub(key.CreatedAt) != 30*24*time.Hour {
		t.Errorf("create: got %+v", key.Key)
	}
	changed, err := c.ChangeKey(ctx, "acc_1", key.ID, api.KeyChange{
		Name: api.To("deploy"), ExpiresAt: api.To[*time.Time](nil), Addresses: api.To([]string{"10.0.0.1"}),
		Limits: api.To([]api.Limit{{Endpoint: api.All, Period: "month", Limit: 7}}),
	})
	check("change", err)
	wanted := key.Key
	wanted.Name, wanted.ExpiresAt, wanted.Addresses = "deploy", nil, []string{"10.0.0.1"}
	wanted.Limits = []api.Limit{{Endpoint: api.All, Period: "month", Limit: 7}}
	if diff := cmp.Diff(wanted, changed); diff != "" {
		t.Errorf("change (-want +got):\n%s", diff)
	}
	changed, err = c.ChangeKey(ctx, "acc_1", key.ID, api.KeyChange{TTL: "30d", Limits: api.To[[]api.Limit](nil), Addresses: api.To([]string{})})
	check("change", err)
	wanted.ExpiresAt, wanted.Limits, wanted.Addresses = key.ExpiresAt, []api.Limit{}, []string{}
	if diff := cmp.Diff(wanted, changed); diff != "" {
		t.Errorf("second change (-want +got):\n%s", diff)
	}
	_, err = c.CreateKey(ctx, "acc_1", api.KeyRequest{Kind: "login"})
	check("login", err)
	next, err := c.RotateKey(ctx, "acc_1", key.ID, api.Rotation{Overlap: "90m"})
	check("rotate", err)
	check("revoke", c.RevokeKey(ctx, "acc_1", next.ID))
	for _, test := range []struct {
		filter client.KeyFilter
		want   int
	}{{client.KeyFilter{}, 1}, {client.KeyFilter{Revoked: true}, 2}, {client.KeyFilter{Kind: "login"}, 1}} {
		keys, err := c.Keys(ctx, "acc_1", test.filter)
		check("keys", err)
		if len(keys) != test.want {
			t.Errorf("%+v: got %d keys, want %d", test.filter, len(keys), test.want)
		}
	}

	check("end logins", c.EndLogins(ctx, "acc_1"))
	if logins, err := c.Keys(ctx, "acc_1", client.KeyFilter{Kind: "login"}); err != nil || len(logins) != 0 {
		t.Errorf("after the logins ended: got %+v, %v", logins, err)
	}
	state, err := connect(t, base, "").Readiness(ctx)
	check("readiness", err)
	if state.Status != api.Ready || len(state.Checks) != 1 {
		t.Errorf("readiness: got %+v", state)
	}

	end := controltest.Start.Add(time.Hour)
	override, err := c.SetLimit(ctx, "acc_1", "convert", "month", api.OverrideRequest{Limit: new(int64(7)), ExpiresAt: &end, Reason: "fair"})
	check("set limit", err)
	_, err = c.SetLimit(ctx, "acc_1", api.All, "second", api.OverrideRequest{})
	check("set limit", err)
	limits, err := c.Limits(ctx, "acc_1")
	check("limits", err)
	if diff := cmp.Diff([]api.Override{
		{Endpoint: "convert", Period: "month", Limit: new(int64(7)), ExpiresAt: &end, Reason: "fair", CreatedAt: controltest.Start},
		{Endpoint: api.All, Period: "second", CreatedAt: controltest.Start},
	}, limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(limits[0], override); diff != "" {
		t.Errorf("set limit (-want +got):\n%s", diff)
	}
	check("clear limit", c.ClearLimit(ctx, "acc_1", "convert", "month"))
	if err := c.ClearLimit(ctx, "acc_1", "convert", "month"); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("clear limit, again: got %v", err)
	}

	document, err := c.Usage(ctx, "acc_1", 7)
	check("usage", err)
	if document.Plan != "starter" || len(document.Endpoints) != 4 || len(document.Days) != 7 {
		t.Errorf("usage: got %+v", document)
	}
	made, err := c.KeyUsage(ctx, "acc_1", key.ID, 3)
	check("key usage", err)
	if made.Key != key.ID || len(made.Days) != 3 {
		t.Errorf("key usage: got %+v", made)
	}
	check("reset one", c.ResetUsage(ctx, "acc_1", "convert"))
	check("reset all", c.ResetUsage(ctx, "acc_1", ""))
	check("delete", c.DeleteAccount(ctx, "acc_1"))
	if _, err := c.Account(ctx, "acc_1"); !errors.Is(err, api.ErrNotFound) {
		t.Errorf("after deletion: got %v", err)
	}
}

func TestRefusalsKeepTheirCode(t *testing.T) {
	t.Parallel()
	gate, ctx := controltest.New(t), t.Context()
	base := gate.Serve(t)
	c := connect(t, base, controltest.Secret)
	if _, err := c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	_, unknownPlan := c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("gold")})
	_, notEntitled := c.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci", Abilities: []string{"admin"}})
	_, noAbility := c.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci", Abilities: []string{}})
	_, planRequired := c.CreateKey(ctx, "stranger", api.KeyRequest{Kind: "login"})
	_, wrongSecret := connect(t, base, "wrong").Plans(ctx)
	_, noSecret := connect(t, base, "").Plans(ctx)
	_, invalidAccount := c.Account(ctx, "../plans")
	_, emptyAccount := c.Keys(ctx, "", client.KeyFilter{})
	_, overlap := c.RotateKey(ctx, "acc_1", "key_x", api.Rotation{Overlap: "-1s"})
	_, unknownEndpoint := c.SetLimit(ctx, "acc_1", "other", "day", api.OverrideRequest{})
	_, noName := c.ChangeKey(ctx, "acc_1", "key_x", api.KeyChange{Name: api.To("")})
	for _, test := range []struct {
		err  error
		code string
	}{
		{unknownPlan, "unknown_plan"},
		{notEntitled, "not_entitled"},
		{noAbility, "invalid_request"},
		{planRequired, "plan_required"},
		{wrongSecret, "unauthenticated"},
		{noSecret, "unauthenticated"},
		{invalidAccount, "invalid_account"},
		{emptyAccount, "invalid_account"},
		{c.DeleteAccount(ctx, ".."), "invalid_account"},
		{c.RevokeKey(ctx, "acc_1", ""), "not_found"},
		{c.RevokeKey(ctx, "acc_1", ".."), "not_found"},
		{c.RevokeKey(ctx, "acc_1", "../../acc_1"), "not_found"},
		{c.RevokeKey(ctx, "acc_1", "?x=/"), "not_found"},
		{overlap, "invalid_request"},
		{c.ClearLimit(ctx, "acc_1", "..", "day"), "unknown_endpoint"},
		{c.ClearLimit(ctx, "acc_1", "convert", ""), "invalid_period"},
		{c.ClearLimit(ctx, "acc_1", "a/../b", "day"), "not_found"},
		{c.ClearLimit(ctx, "..", "convert", "day"), "invalid_account"},
		{unknownEndpoint, "unknown_endpoint"},
		{noName, "invalid_name"},
		{c.ResetUsage(ctx, "acc_1", "a&b=c"), "unknown_endpoint"},
	} {
		if got := code(test.err); got != test.code {
			t.Errorf("got %q, want %q", got, test.code)
		}
		if errors.Is(test.err, client.ErrUnreachable) {
			t.Errorf("%s is taken for an unreachable gate", test.code)
		}
	}

	gate.Break(errors.New("no store"))
	_, err := c.Account(ctx, "acc_1")
	var refused *apierror.Error
	if !errors.As(err, &refused) || refused.Code != "unavailable" || refused.Status != 503 || refused.GetHeaders().Get("Retry-After") != "5" {
		t.Errorf("a gate without a store: got %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc // nil: no listener
	}{
		{"no listener", nil},
		{"a page of a proxy", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = fmt.Fprint(w, "<html>Bad Gateway</html>")
		}},
		{"a page that says OK", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "<html>welcome</html>") }},
		{"an empty answer", func(http.ResponseWriter, *http.Request) {}},
		{"JSON of another program", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"error":"not found"}`)
		}},
		{"an answer without end", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"plans":[],"endpoints":[],"timezone":"UTC"}`)
			for range 9 << 10 {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1<<10)); err != nil {
					return
				}
			}
		}},
		{"a header that is none", func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nada@example.com\r\n\r\n"))
			_ = conn.Close()
		}},
		{"an answer that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = fmt.Fprint(w, `{"plans"`)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			base := closed
			if test.handler != nil {
				server := httptest.NewServer(test.handler)
				t.Cleanup(server.Close)
				base = server.URL
			}
			_, err := connect(t, base, controltest.Secret).Plans(t.Context())
			if !errors.Is(err, client.ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), controltest.Secret) || strings.Contains(err.Error(), "/tollgate/") || strings.Contains(err.Error(), "ada@")) {
				t.Errorf("the error says too much: %v", err)
			}
		})
	}
}

// A gate that ends a backup in the middle breaks the answer off. The gate is not
// unreachable.
func TestBackupThatBreaksOff(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 64<<10))
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	err := connect(t, server.URL, "").Backup(t.Context(), io.Discard)
	if want := "the gate ended the backup early; its log says why"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestContextEndsTheWait(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := connect(t, server.URL, "").Plans(ctx)
	if !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// Threat: something on the gate's port redirects to a host that collects
// what it is sent.
func TestSecretDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the client followed, with Authorization %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(thief.Close)
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	t.Cleanup(server.Close)
	if _, err := connect(t, server.URL, controltest.Secret).Plans(t.Context()); !errors.Is(err, client.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// Threat: a proxy on the way cleans paths up, so that ending a key with
// the id ".." removes its account.
func TestIdsAreNoPaths(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s was sent", r.Method, r.RequestURI)
	}))
	t.Cleanup(server.Close)
	c := connect(t, server.URL, controltest.Secret)
	for _, id := range []string{"", ".", ".."} {
		if err := c.RevokeKey(t.Context(), "acc_1", id); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("key %q: got %v", id, err)
		}
		if err := c.DeleteAccount(t.Context(), id); !errors.Is(err, api.ErrInvalidAccount) {
			t.Errorf("account %q: got %v", id, err)
		}
	}
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: gate.Handler()}}
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	if _, err := connect(t, "http://gate", controltest.Secret, client.WithTransport(transport)).Plans(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{
		"http://127.0.0.1:8081": true, "https://gate.internal/": true, "http://[::1]:8081": true,
		"": false, "127.0.0.1:8081": false, "localhost:8081": false, "ftp://gate": false, "http://": false,
		"http://user:hunter2@gate": false, "http://gate?x=1": false, "http://gate#x": false, "http://gate\x7f": false,
	} {
		_, err := client.New(base, "")
		if (err == nil) != ok {
			t.Errorf("%q: got %v", base, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error shows the password: %v", base, err)
		}
	}
}

// TestNoGate talks to a server that says 200 to everything, as Caddy does
// where no site has the name that was asked for: nothing was changed, and
// a client that believed it would leave a revoked key open.
func TestNoGate(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	gate, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]error{
		"RevokeKey":     gate.RevokeKey(t.Context(), "acc_1", "key_1"),
		"DeleteAccount": gate.DeleteAccount(t.Context(), "acc_1"),
		"ResetUsage":    gate.ResetUsage(t.Context(), "acc_1", ""),
		"ClearLimit":    gate.ClearLimit(t.Context(), "acc_1", "convert", "day"),
	}
	for name, err := range changes {
		if !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("%s: got %v, want ErrUnreachable", name, err)
		}
	}
}

// TestAnotherServer talks to a server that answers everything with a JSON
// object of its own: whoever believed it would show an account that there
// is not, or keep a token that opens nothing.
func TestAnotherServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	defer server.Close()
	gate, err := client.New(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(context.Context) error{
		"Plans":   func(ctx context.Context) error { _, err := gate.Plans(ctx); return err },
		"Account": func(ctx context.Context) error { _, err := gate.Account(ctx, "acc_1"); return err },
		"PutAccount": func(ctx context.Context) error {
			_, err := gate.PutAccount(ctx, "acc_1", api.AccountChange{})
			return err
		},
		"Accounts": func(ctx context.Context) error { _, err := gate.Accounts(ctx, "", 1); return err },
		"CreateKey": func(ctx context.Context) error {
			_, err := gate.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci"})
			return err
		},
		"RotateKey": func(ctx context.Context) error {
			_, err := gate.RotateKey(ctx, "acc_1", "key_1", api.Rotation{})
			return err
		},
		"Keys":  func(ctx context.Context) error { _, err := gate.Keys(ctx, "acc_1", client.KeyFilter{}); return err },
		"Usage": func(ctx context.Context) error { _, err := gate.Usage(ctx, "acc_1", 0); return err },
		"KeyUsage": func(ctx context.Context) error {
			_, err := gate.KeyUsage(ctx, "acc_1", "key_1", 1)
			return err
		},
		"ChangeKey": func(ctx context.Context) error {
			_, err := gate.ChangeKey(ctx, "acc_1", "key_1", api.KeyChange{})
			return err
		},
		"SetLimit": func(ctx context.Context) error {
			_, err := gate.SetLimit(ctx, "acc_1", "convert", "day", api.OverrideRequest{})
			return err
		},
		"Limits":    func(ctx context.Context) error { _, err := gate.Limits(ctx, "acc_1"); return err },
		"RevokeKey": func(ctx context.Context) error { return gate.RevokeKey(ctx, "acc_1", "key_1") },
	}
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, client.ErrUnreachable) {
			t.Errorf("%s: got %v, want ErrUnreachable", name, err)
		}
	}
}

// A gate that says that it is not ready has answered. What is no gate has
// not, and a Caddy without a gate refuses.
func TestReadiness(t *testing.T) {
	t.Parallel()
	gate := controltest.New(t)
	c := connect(t, gate.Serve(t), "")
	gate.Break(errors.New("no store"))
	if state, err := c.Readiness(t.Context()); err != nil || state.Status != api.Unavailable || state.Checks[0].OK {
		t.Errorf("without a store: got %+v, %v", state, err)
	}
	for _, test := range []struct {
		status int
		body   string
		want   string
	}{
		{200, "", "unreachable"},
		{200, "ok", "unreachable"},
		{200, `{"state":"UP"}`, "unreachable"},
		{404, `{"status":"ready"}`, "unreachable"},
		{503, "", "unreachable"},
		{503, `{"message":"The running configuration has no gate.","code":"unavailable"}`, "has no gate"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		if state, err := connect(t, server.URL, "").Readiness(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d %s: got %+v, %v, want %q", test.status, test.body, state, err, test.want)
		}
		server.Close()
	}
}

// TestImportFails: an import tells whose failure it is.
func TestImportFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	gate := controltest.New(t).Serve(t)
	respond := func(media, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", media)
			w.Write([]byte(body))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	const line = `{"account":"acc_1"}`
	for name, test := range map[string]struct {
		base, secret string
		lines        io.Reader
		each         error
		want         error
		code         string
	}{
		"the reader":       {gate, controltest.Secret, io.MultiReader(strings.NewReader(line), iotest.ErrReader(broken)), nil, broken, ""},
		"the callback":     {gate, controltest.Secret, strings.NewReader(line), broken, broken, ""},
		"the secret":       {gate, "wrong", strings.NewReader(line), nil, nil, "unauthenticated"},
		"no gate":          {"http://127.0.0.1:1", "", strings.NewReader(line), nil, client.ErrUnreachable, ""},
		"another server":   {respond("text/html", "hello"), "", strings.NewReader(line), nil, client.ErrUnreachable, ""},
		"other lines":      {respond(api.LinesType, `{"line":2}`), "", strings.NewReader(line), nil, client.ErrUnreachable, ""},
		"a part of a line": {respond(api.LinesType, `{"line":1,"acc`), "", strings.NewReader(line), nil, client.ErrUnreachable, ""},
	} {
		err := connect(t, test.base, test.secret).ImportAccounts(t.Context(), test.lines, func(api.LineResult) error { return test.each })
		if err == nil || test.want != nil && !errors.Is(err, test.want) || test.want == nil && code(err) != test.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
