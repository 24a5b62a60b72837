package client_test

import (
	"context"
	"errors"
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
	"github.com/caddy-tollgate/tollgate/internal/apierror"
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

// calls are all calls of a client, with the codes of the refusals of a gate
// whose account acc_1 is on plan starter.
func calls(ctx context.Context, c *client.Client) map[string]func() (any, error) {
	request := api.KeyRequest{Name: "ci"}
	return map[string]func() (any, error){
		"Plans":      func() (any, error) { return c.Plans(ctx) },
		"PublicKeys": func() (any, error) { return c.PublicKeys(ctx) },
		"Readiness":  func() (any, error) { return c.Readiness(ctx) },
		"PutAccount": func() (any, error) { return c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")}) },
		"PutAccount unknown_plan": func() (any, error) {
			return c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("gold")})
		},
		"PutAccount body_too_large": func() (any, error) {
			return c.PutAccount(ctx, "a", api.AccountChange{Plan: new(strings.Repeat("x", 1<<16))})
		},
		"Account":                 func() (any, error) { return c.Account(ctx, "acc_1") },
		"Account not_found":       func() (any, error) { return c.Account(ctx, "acc_2") },
		"Account invalid_account": func() (any, error) { return c.Account(ctx, "../plans") },
		"Accounts":                func() (any, error) { return c.Accounts(ctx, api.AccountQuery{After: "acc_0", Limit: 1}) },
		"FindAccounts": func() (any, error) {
			return c.Accounts(ctx, api.AccountQuery{Plan: "starter", Disabled: "false"})
		},
		"Document":                func() (any, error) { return c.Document(ctx, "acc_1") },
		"Document not_found":      func() (any, error) { return c.Document(ctx, "acc_2") },
		"LookUpAccount":           func() (any, error) { return c.LookUpAccount(ctx, "acc_1") },
		"DeleteAccount not_found": func() (any, error) { return nil, c.DeleteAccount(ctx, "acc_2") },
		"CreateKey name_taken":    func() (any, error) { return c.CreateKey(ctx, "acc_1", request) },
		"CreateKey not_found":     func() (any, error) { return c.CreateKey(ctx, "stranger", request) },
		"CreateKey invalid_request": func() (any, error) {
			return c.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "x", Abilities: []string{}})
		},
		"Keys":                        func() (any, error) { return c.Keys(ctx, "acc_1", client.KeyFilter{Revoked: true}) },
		"Keys invalid_account":        func() (any, error) { return c.Keys(ctx, "", client.KeyFilter{Kind: "login"}) },
		"ChangeKey invalid_name":      func() (any, error) { return c.ChangeKey(ctx, "acc_1", "key_x", api.KeyChange{Name: api.To("")}) },
		"RotateKey invalid_request":   func() (any, error) { return c.RotateKey(ctx, "acc_1", "key_x", api.Rotation{Overlap: "-1s"}) },
		"RevokeKey not_found":         func() (any, error) { return nil, c.RevokeKey(ctx, "acc_1", "?x=/") },
		"FindKey not_found":           func() (any, error) { return c.FindKey(ctx, strings.Repeat("0", 64)) },
		"EndLogins":                   func() (any, error) { return nil, c.EndLogins(ctx, "acc_1") },
		"SetLimit":                    func() (any, error) { return c.SetLimit(ctx, "acc_1", api.All, "month", api.OverrideRequest{}) },
		"SetLimit unknown_endpoint":   func() (any, error) { return c.SetLimit(ctx, "acc_1", "other", "day", api.OverrideRequest{}) },
		"Limits not_found":            func() (any, error) { return c.Limits(ctx, "acc_2") },
		"ClearLimit not_found":        func() (any, error) { return nil, c.ClearLimit(ctx, "acc_1", "a/../b", "day") },
		"ClearLimit invalid_period":   func() (any, error) { return nil, c.ClearLimit(ctx, "acc_1", "convert", "") },
		"Usage":                       func() (any, error) { return c.Usage(ctx, "acc_1", 7) },
		"ResetUsage":                  func() (any, error) { return nil, c.ResetUsage(ctx, "acc_1", "", "") },
		"ResetUsage unknown_endpoint": func() (any, error) { return nil, c.ResetUsage(ctx, "acc_1", "a&b=c", "") },
		"Audit": func() (any, error) {
			return c.Audit(ctx, api.AuditQuery{Account: "acc_1", Order: "desc", Limit: 3})
		},
		"Refused": func() (any, error) { return c.Refused(ctx, api.RefusedQuery{Days: 3, Account: "acc_2", Limit: 3}) },
		"Counts":  func() (any, error) { return c.Counts(ctx, "2126-11-20", "", 3) },
		"Credit nothing_to_credit": func() (any, error) {
			return c.Credit(ctx, "acc_1", api.CreditRequest{Endpoint: "convert", Calls: 1, ID: "credit_1"})
		},
		"Note":                   func() (any, error) { return nil, c.Note(ctx, "acc_1", api.OperatorGrant) },
		"Note not_found":         func() (any, error) { return nil, c.Note(ctx, "acc_2", api.OperatorGrant) },
		"Note invalid_request":   func() (any, error) { return nil, c.Note(ctx, "acc_1", api.KeyRevoke) },
		"Portal not_found":       func() (any, error) { return c.Portal(ctx, "acc_2") },
		"Portal invalid_account": func() (any, error) { return c.Portal(ctx, "a/../plans") },
		"Portal": func() (any, error) {
			link, err := c.Portal(ctx, "acc_1")
			link.URL, _, _ = strings.Cut(link.URL, "?") // each is another one
			return link, err
		},
		"Take not_found":       func() (any, error) { return c.Take(ctx, api.Taking{Account: "acc_1", Endpoint: "convert"}) },
		"SettleCall not_found": func() (any, error) { return nil, c.SettleCall(ctx, "call_x", 0) },
		"TopUsage":             func() (any, error) { return c.TopUsage(ctx, 3, 3) },
		"Summary":              func() (any, error) { return c.Summary(ctx) },
		"Explain not_found": func() (any, error) {
			return c.Explain(ctx, api.Question{Method: "GET", Target: "/", Account: "acc_2"})
		},
	}
}

// A client in memory and one over a connection get the same answers, and
// refusals keep their codes.
func TestCalls(t *testing.T) {
	t.Parallel()
	gate, ctx := controltest.New(t), t.Context()
	memory := client.InProcess(gate.InProcess())
	if _, err := memory.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	key, err := memory.CreateKey(ctx, "acc_1", api.KeyRequest{Name: "ci", Abilities: []string{"convert"}, TTL: "30d"})
	if err != nil || !strings.HasPrefix(key.Token, "tgk_") || key.ExpiresAt.Sub(key.CreatedAt) != 30*24*time.Hour {
		t.Fatal(key, err)
	}
	base := gate.Serve(t)
	network := calls(ctx, connect(t, base, controltest.Secret))
	for name, call := range calls(ctx, memory) {
		_, want, _ := strings.Cut(name, " ")
		got, gotErr := call()
		other, otherErr := network[name]()
		if diff := cmp.Diff(other, got); diff != "" || code(gotErr) != want || code(otherErr) != want || errors.Is(gotErr, client.ErrUnreachable) {
			t.Errorf("%s: got %v in memory and %v over a connection (-network +memory):\n%s", name, gotErr, otherErr, diff)
		}
	}
	for _, why := range []string{"a\nb", "a\x7f", "a\xff", strings.Repeat("x", 201)} {
		for _, c := range []*client.Client{memory, connect(t, base, controltest.Secret)} {
			if _, err := c.PutAccount(client.WithReason(ctx, why), "acc_1", api.AccountChange{Plan: new("free")}); code(err) != "invalid_reason" {
				t.Errorf("reason %.9q: got %v", why, err)
			}
		}
	}
	if _, err := memory.SetLimit(client.WithReason(ctx, " \tgift "), "acc_1", "convert", "day", api.OverrideRequest{}); err != nil {
		t.Fatal(err)
	}
	if page, err := memory.Audit(ctx, api.AuditQuery{Order: "desc", Limit: 1}); err != nil || len(page.Audit) != 1 || page.Audit[0].Reason != "gift" {
		t.Errorf("a reason with space around it: got %+v, %v", page, err)
	}
	for _, secret := range []string{"", "wrong"} {
		if _, err := connect(t, base, secret).Plans(ctx); code(err) != "unauthenticated" {
			t.Errorf("secret %q: got %v", secret, err)
		}
	}
	gate.Break(errors.New("the disk is gone"))
	for _, c := range []*client.Client{memory, connect(t, base, controltest.Secret)} {
		_, err := c.Account(ctx, "acc_1")
		var refused *apierror.Error
		if !errors.As(err, &refused) || refused.Code != "unavailable" || refused.Status != 503 || refused.GetHeaders().Get("Retry-After") != "5" {
			t.Errorf("a gate without a store: got %v", err)
		}
		if state, err := c.Readiness(ctx); err != nil || state.Status != api.Unavailable || state.Checks[0].OK {
			t.Errorf("a gate without a store: got %+v, %v", state, err)
		}
	}
}

// respond returns the address of a server that answers everything in the same
// way.
func respond(t *testing.T, status int, mediaType, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = nil // no sniffing
		if mediaType != "" {
			w.Header().Set("Content-Type", mediaType)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestAnotherServer: the address is that of another server, or of another site
// of the gate's Caddy. A client that believed its answers would leave a revoked
// key open. Each call fails, and says what to check.
func TestAnotherServer(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the client followed a redirect, with Authorization %q", r.Header.Get("Authorization"))
	}))
	t.Cleanup(thief.Close)
	redirect := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	t.Cleanup(redirect.Close)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if n, _ := io.Copy(w, r.Body); n == 0 {
			_, _ = io.WriteString(w, "{}")
		}
	}))
	t.Cleanup(echo.Close)
	for name, c := range map[string]struct{ base, says string }{
		"an empty 200":             {respond(t, 200, "", ""), "status 200 and no media type"},
		"respond 404":              {respond(t, 404, "", ""), "status 404 and no media type"},
		"a page":                   {respond(t, 200, "text/html; charset=utf-8", "<html>welcome ada@example.com</html>"), "status 200 and text/html"},
		"a page of a proxy":        {respond(t, 502, "text/html", "<html>Bad Gateway</html>"), "status 502 and text/html"},
		"a page that is a refusal": {respond(t, 404, "text/html", `{"message":"No.","code":"not_found"}`), "status 404 and text/html"},
		"a page that is JSON":      {respond(t, 200, "text/plain", `{"plans":[],"endpoints":[],"timezone":"UTC","line":1}`), "status 200 and text/plain"},
		"a redirect":               {redirect.URL, "status 307"},
		"JSON of another program":  {respond(t, 200, "application/json", `{"state":"UP"}`), "status 200 and application/json"},
		"JSON with a known member": {respond(t, 200, "application/json", `{"plan":"x"}`), "status 200 and application/json"},
		"the request as JSON":      {echo.URL, "status 200 and application/json"},
		"a list":                   {respond(t, 200, "application/json", `[]`), "status 200 and application/json"},
		"refusal of another":       {respond(t, 404, "application/json", `{"error":"not found ada@example.com"}`), "status 404 and application/json"},
		"unavailable":              {respond(t, 503, "application/json", `{}`), "status 503 and application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := connect(t, c.base, controltest.Secret)
			all := calls(t.Context(), gate)
			all["Backup"] = func() (any, error) { return nil, gate.Backup(t.Context(), io.Discard) }
			all["ImportKeys"] = func() (any, error) {
				return nil, gate.ImportKeys(t.Context(), strings.NewReader("{}"), true, func(api.LineResult) error { return nil })
			}
			for name, call := range all {
				switch _, err := call(); {
				case strings.HasSuffix(name, "invalid_account"), strings.HasSuffix(name, "invalid_period"): // nothing is sent
				case !errors.Is(err, client.ErrUnreachable), !errors.Is(err, client.ErrOther),
					!strings.Contains(err.Error(), c.says) || !strings.HasSuffix(err.Error(), "Is the address that of tollgate_control, or of the admin endpoint of a Caddy with a gate?"):
					t.Errorf("%s: got %v, want %q", name, err, c.says)
				case strings.Contains(err.Error(), controltest.Secret) || strings.Contains(err.Error(), "ada@"):
					t.Errorf("%s: the error says too much: %v", name, err)
				}
			}
		})
	}
	// A Caddy without a gate refuses.
	_, err := connect(t, respond(t, 503, "application/json", `{"message":"The running configuration has no gate.","code":"unavailable"}`), "").Readiness(t.Context())
	if code(err) != "unavailable" || !strings.Contains(err.Error(), "has no gate") {
		t.Errorf("a Caddy without a gate: got %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	hijack := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		}
	}
	for name, handler := range map[string]http.HandlerFunc{
		"no listener":               nil,
		"a header that is none":     hijack("HTTP/1.1 200 OK\r\nada@example.com\r\n\r\n"),
		"an answer that breaks off": hijack("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"plans\""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := "http://127.0.0.1:1" // a port that no other test gets
			if handler != nil {
				server := httptest.NewServer(handler)
				t.Cleanup(server.Close)
				url = server.URL
			}
			_, err := connect(t, url, controltest.Secret).Plans(t.Context())
			if !errors.Is(err, client.ErrUnreachable) || errors.Is(err, client.ErrOther) {
				t.Errorf("got %v", err)
			}
			if err != nil && (strings.Contains(err.Error(), controltest.Secret) || strings.Contains(err.Error(), "/tollgate/") || strings.Contains(err.Error(), "ada@")) {
				t.Errorf("the error says too much: %v", err)
			}
		})
	}
}

// TestLongAnswer: a gate that answers is not unreachable, whatever it answers.
// Only a page of counts can be long.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"plans":[],"counts":[]}`+strings.Repeat(" ", 9<<20))
	}))
	t.Cleanup(server.Close)
	gate := connect(t, server.URL, controltest.Secret)
	_, err := gate.Plans(t.Context())
	if err == nil || errors.Is(err, client.ErrUnreachable) || !strings.Contains(err.Error(), "longer than 8 MiB") {
		t.Errorf("got %v", err)
	}
	if _, err := gate.Counts(t.Context(), "2126-11", "", 0); err != nil {
		t.Errorf("a page of counts: got %v", err)
	}
}

// A gate that ends a backup in the middle breaks the answer off. The gate is not
// unreachable.
func TestBackupThatBreaksOff(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/gzip")
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
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	if _, err := connect(t, server.URL, "").Plans(ctx); !errors.Is(err, client.ErrUnreachable) || !errors.Is(err, context.Canceled) {
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

// TestImportFails: an import tells whose failure it is.
func TestImportFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	gate := controltest.New(t).Serve(t)
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
		"other lines":      {respond(t, 200, api.LinesType, `{"line":2}`), "", strings.NewReader(line), nil, client.ErrUnreachable, ""},
		"a part of a line": {respond(t, 200, api.LinesType, `{"line":1,"acc`), "", strings.NewReader(line), nil, client.ErrUnreachable, ""},
	} {
		err := connect(t, test.base, test.secret).ImportAccounts(t.Context(), test.lines, func(api.LineResult) error { return test.each })
		if err == nil || test.want != nil && !errors.Is(err, test.want) || test.want == nil && code(err) != test.code {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
