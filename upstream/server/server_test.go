package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates"
	"github.com/caddy-tollgate/tollgate/upstream/currency/rates/ecb"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

const password = "correct horse battery staple"

// host is what clients of the site ask for.
const host = "rates.example"

// site is the whole upstream over real parts.
type site struct {
	http.Handler
	accounts *account.Service
	hasher   *account.Hasher
	store    *database.Store
	gate     *gatetest.Gate
	log      *lockedBuffer
	asserted map[string]string // by purpose
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// newSite returns an upstream, changed by edit.
func newSite(t *testing.T, edit ...func(*server.Config)) *site {
	t.Helper()
	store := accounttest.Open(t)
	base, err := rates.Indicative()
	if err != nil {
		t.Fatal(err)
	}
	provider, err := ecb.Open(ecb.Options{Indicative: base})
	if err != nil {
		t.Fatal(err)
	}
	address := &url.URL{Scheme: "https", Host: host}
	currencies, err := api.New(provider, address, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{store: store, gate: gatetest.Start(t), log: &lockedBuffer{}, asserted: map[string]string{}}
	for _, purpose := range []string{assertion.Call, assertion.Login} {
		s.asserted[purpose] = gatetest.Assert(t, host, purpose)
	}
	logger := slog.New(slog.NewTextHandler(s.log, nil))
	s.hasher = accounttest.Hasher()
	s.accounts = account.NewService(store, s.gate.Client, s.hasher, time.Now, logger)
	config := server.Config{
		Check: server.CheckAssertion(gatetest.Verifier(t, host)), API: currencies, Login: portal.NewLogin(s.accounts, logger), Database: store, Logger: logger,
	}
	config.Pages, err = web.New(web.Config{
		Accounts: s.accounts, Sessions: store, Gate: s.gate.Client,
		Site: web.Site{Address: address, Timezone: "Europe/Berlin"}, Now: time.Now, Logger: logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edit {
		e(&config)
	}
	s.Handler = server.New(config)
	return s
}

// add makes an account.
func (s *site) add(t *testing.T, email account.Email, plan string) account.Account {
	t.Helper()
	a, err := s.accounts.Add(t.Context(), email, password, plan)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// do makes a request that did not come through the gate.
func (s *site) do(method, target string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, body)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// proven makes a request that came through the gate.
func (s *site) proven(method, target string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	purpose := assertion.Call
	if slices.Contains(logins, target) {
		purpose = assertion.Login
	}
	return s.do(method, target, body, append(header, assertion.Header, s.asserted[purpose])...)
}

// logins are the paths that the gate throttles.
var logins = []string{"/api/login", "/login", "/signup"}

// checkRefusal checks status, code and shape of a refusal.
func checkRefusal(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	var body struct{ Message, Code string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Errorf("got %q: %v", w.Body, err)
	}
	if w.Code != status || body.Code != code || body.Message == "" {
		t.Errorf("got %d %+v, want %d %s", w.Code, body, status, code)
	}
	h := w.Header()
	if h.Get("Content-Type") != "application/json; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("got headers %v, want JSON that is not stored", h)
	}
	checkNoSniff(t, w)
}

// checkNoSniff wants the header that keeps a browser from guessing at the
// type of an answer, once.
func checkNoSniff(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if got := w.Header().Values("X-Content-Type-Options"); len(got) != 1 || got[0] != "nosniff" {
		t.Errorf("got X-Content-Type-Options %q, want nosniff", got)
	}
}

// Threat: a client reaches the upstream around the gate, and has the API
// without a token, a quota or a login throttle.
func TestAroundTheGate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	call, login := gatetest.Assert(t, host, assertion.Call), gatetest.Assert(t, host, assertion.Login)
	for _, target := range []string{
		"/api/currencies", "/api/login", "/api/nothing", "/api/", "/api", "/%61pi/currencies", "/api/convert/EUR/10/USD",
	} {
		right, other := call, login
		if target == "/api/login" {
			right, other = login, call
		}
		for name, header := range map[string][]string{
			"no assertion":    {},
			"another secret":  {assertion.Header, foreign(t)},
			"another host":    {assertion.Header, gatetest.Assert(t, "www.example", assertion.Call)},
			"another purpose": {assertion.Header, other},
			"twice":           {assertion.Header, right, assertion.Header, right},
			"the secret":      {assertion.Header, gatetest.Secret},
			"identity claims": {"Tollgate-Account", "acc_1", "Tollgate-Plan", "business"},
		} {
			w := s.do(http.MethodGet, target, nil, header...)
			if w.Code != http.StatusForbidden {
				t.Errorf("GET %s, %s: got %d, want 403", target, name, w.Code)
				continue
			}
			checkRefusal(t, w, http.StatusForbidden, "forbidden")
		}
	}
	w := s.do(http.MethodGet, "/api/currencies", nil, assertion.Header, call)
	if checkNoSniff(t, w); w.Code != http.StatusOK {
		t.Errorf("valid: got %d, want 200", w.Code)
	}
	if w := s.do(http.MethodGet, "/API/currencies", nil); w.Code != http.StatusNotFound {
		t.Errorf("another case of the path: got %d, want 404", w.Code)
	}
}

// foreign is the assertion of a gate with another secret.
func foreign(t *testing.T) string {
	t.Helper()
	key, err := assertion.NewKey(strings.ToUpper(gatetest.Secret))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := assertion.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer.Call([32]byte{}, host, assertion.Caller{Account: "acc_1"}, time.Now())
}

// What is not there is refused in the one shape, and never redirected.
func TestRefusedPaths(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct {
		method, target string
		status         int
		code, allow    string
	}{
		{"GET", "//healthz", 404, "not_found", ""},
		{"GET", "/api", 404, "not_found", ""},
		{"GET", "//api/currencies", 404, "not_found", ""},
		{"POST", "/healthz", 405, "method_not_allowed", "GET, HEAD"},
		{"GET", "/api/login", 405, "method_not_allowed", "POST"},
		{"POST", "/api/currencies", 405, "method_not_allowed", "GET, HEAD"},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			w := s.proven(c.method, c.target, nil)
			checkRefusal(t, w, c.status, c.code)
			if got := w.Header().Get("Allow"); got != c.allow {
				t.Errorf("Allow is %q, want %q", got, c.allow)
			}
		})
	}
}

// Threat: the sign-in form of the web pages is a password oracle beside
// the throttle, for a client that reaches the upstream around the gate.
func TestSignInNeedsTheGate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(t, "ada@example.com", "starter")
	form := func() io.Reader {
		return strings.NewReader("email=ada@example.com&password=correct+horse+battery+staple")
	}
	w := s.do(http.MethodPost, "/login", form(), "Content-Type", "application/x-www-form-urlencoded")
	checkRefusal(t, w, http.StatusForbidden, "forbidden")
	if got := w.Header().Get("Set-Cookie"); got != "" {
		t.Errorf("got the cookie %q", got)
	}
	w = s.proven(http.MethodPost, "/login", form(), "Content-Type", "application/x-www-form-urlencoded")
	if w.Code != http.StatusSeeOther || w.Header().Get("Set-Cookie") == "" {
		t.Errorf("through the gate: got %d %v, want 303 and a cookie", w.Code, w.Header())
	}
}

// Threat: the gate does not know the sign-up form as a login, and nobody
// learns that strangers make accounts as fast as they like.
func TestSignUpAroundTheGate(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *server.Config) {
		c.SignUp = true
		c.Pages = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSeeOther) })
	})
	const warning = "login POST /signup"
	if w := s.proven(http.MethodPost, "/signup", nil); w.Code != http.StatusSeeOther || strings.Contains(s.log.String(), warning) {
		t.Errorf("through the gate: got %d and the log %q", w.Code, s.log)
	}
	for range 2 {
		if w := s.do(http.MethodPost, "/signup", nil); w.Code != http.StatusSeeOther {
			t.Errorf("got %d", w.Code)
		}
	}
	if got := strings.Count(s.log.String(), warning); got != 1 {
		t.Errorf("the operator is warned %d times: %s", got, s.log)
	}
}
