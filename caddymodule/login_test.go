package caddymodule_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

const asJSON, asForm = "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"

// password is an upstream that knows one password, as the currency API's
// does: 401 for a wrong one, 303 for a form, 200 for JSON.
func password(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("X-Password") != "right":
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "wrong")
	case strings.HasSuffix(r.Header.Get("Content-Type"), "form-urlencoded"):
		http.Redirect(w, r, "/", http.StatusSeeOther)
	default:
		io.WriteString(w, "right")
	}
}

func logIn(t *testing.T, s *site, email string, right bool, headers ...string) answered {
	t.Helper()
	word := "wrong"
	if right {
		word = "right"
	}
	headers = append(headers, "X-Password: "+word, asJSON)
	return s.ask(t, "POST", "/api/login", fmt.Sprintf(`{"email":%q,"password":"x"}`, email), headers...)
}

// loose is a throttle without a limit for an address, so that the
// rule for accounts can be seen.
const loose = "login POST /api/login {\nper_client 1000 1m\nper_account 3 30s 15m\n}\nlogin POST /login\n" +
	"endpoint convert GET /api/convert/{from}/{amount}/{to}\nplan small {\nconvert 5\n}\nguard /api/"

// TestLoginBehindAProxy tells clients apart whose address a trusted proxy
// names.
func TestLoginBehindAProxy(t *testing.T) {
	s := start(t, setup{upstream: password, global: "servers {\ntrusted_proxies static 127.0.0.1/32\ntrusted_proxies_strict\n}"})
	for i := range 6 {
		got := logIn(t, s, fmt.Sprintf("a%d@example.com", i), false, "X-Forwarded-For: 198.51.100.9, 192.0.2.7")
		if want := []int{401, 401, 401, 401, 401, 429}[i]; got.status != want {
			t.Errorf("attempt %d: got %d, want %d", i, got.status, want)
		}
	}
	for header, want := range map[string]int{
		"X-Forwarded-For: 192.0.2.8":         200,
		"X-Forwarded-For: 8.8.8.8,192.0.2.7": 429, // what the client wrote itself does not count
		"X-Forwarded-For: 2001:db8::1":       200,
		"X-Forwarded-For: ::ffff:192.0.2.7":  429, // the same address, written as IPv6
		"X-Forwarded-For: ::ffff:192.0.2.9":  200,
		"X-Forwarded-For: 2001:db8:0:1::1":   200,
	} {
		if got := logIn(t, s, "b@example.com", true, header); got.status != want {
			t.Errorf("%s: got %d, want %d", header, got.status, want)
		}
	}
	for i := range 6 { // a /64 is one client
		got := logIn(t, s, fmt.Sprintf("c%d@example.com", i), false, fmt.Sprintf("X-Forwarded-For: 2001:db8:7:7::%x", i+1))
		if want := []int{401, 401, 401, 401, 401, 429}[i]; got.status != want {
			t.Errorf("attempt %d of a /64: got %d, want %d", i, got.status, want)
		}
	}
}

// Threat: an operator words the refusal of a wrong password in an error
// route, and with that takes the throttle off the accounts. What looks like
// a success there clears nothing.
func TestLoginEndsAsError(t *testing.T) {
	for name, c := range map[string]struct {
		behind, more string
		want         []int
	}{
		"401":               {behind: "error 401", want: []int{401, 401, 401, 429}},
		"401, errors pass":  {behind: "error 401", more: "errors pass", want: []int{401, 401, 401, 429}},
		"403":               {behind: "error 403", want: []int{403, 403, 403, 403}},
		"a success between": {behind: "@ok header X-Password right\nerror @ok 303\nerror 401", want: []int{401, 401, 303, 401, 429}},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{gate: loose, more: c.more, behind: c.behind})
			for i, want := range c.want {
				if got := logIn(t, s, "a@example.com", want == 303); got.status != want {
					t.Errorf("attempt %d: got %d, want %d", i, got.status, want)
				}
			}
		})
	}
}

func code(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// TestLoginMemory survives reloads, restarts and other configurations.
func TestLoginMemory(t *testing.T) {
	s := start(t, setup{upstream: password, gate: loose})
	for range 3 {
		logIn(t, s, "a@example.com", false)
	}
	for name, interrupt := range map[string]func() error{
		"reload": s.reload,
		"restart": func() error {
			if err := caddy.Stop(); err != nil {
				return err
			}
			return s.reload()
		},
	} {
		if err := interrupt(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := logIn(t, s, "a@example.com", false); got.status != 429 {
			t.Errorf("after a %s: got %d, want 429", name, got.status)
		}
	}
	if n := s.upstream.seen(); n != 3 {
		t.Errorf("the upstream saw %d attempts, want 3", n)
	}
}
