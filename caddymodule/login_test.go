package caddymodule_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestLoginPerClient: all routes count together, refused attempts do not prolong
// the wait, and a client cannot name another address for itself.
func TestLoginPerClient(t *testing.T) {
	s := start(t, setup{upstream: password})
	form := func() answered {
		return s.ask(t, "POST", "/login", "email=b%40example.com&password=x", asForm, "X-Password: wrong")
	}
	for _, attempt := range []func() answered{form, form, form, form, func() answered { return logIn(t, s, "a@example.com", false) }} {
		if got := attempt(); got.status != 401 {
			t.Fatalf("got %+v", got)
		}
	}
	for range 3 {
		for _, got := range []answered{form(), logIn(t, s, "new@example.com", true, "X-Forwarded-For: 192.0.2.7", "Forwarded: for=192.0.2.7", "X-Real-IP: 192.0.2.7")} {
			seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
			if got.status != 429 || got.code() != "too_many_attempts" || err != nil || seconds < 1 || seconds > 60 || got.header.Get("Cache-Control") != "no-store" || got.header.Get("Ratelimit") != "" {
				t.Errorf("got %+v", got)
			}
			checkBody(t, got.body)
		}
	}
	if n := s.upstream.seen(); n != 5 {
		t.Errorf("the upstream saw %d attempts, want 5", n)
	}
}

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

// TestLoginPerAccount counts failures only, by the canonical e-mail, whether or
// not such an account exists. Only a 401 of the upstream is one.
func TestLoginPerAccount(t *testing.T) {
	s := start(t, setup{upstream: password, gate: loose})
	began := time.Now()
	for _, attempt := range [][3]string{
		{"/api/login", `{"email":" A@EXAMPLE.com"}`, asJSON}, {"/api/login", `{"EMAIL":"\u0061@example.com"}`, asJSON}, {"/login", "email=a%40example.com", asForm},
	} {
		if got := s.ask(t, "POST", attempt[0], attempt[1], attempt[2]); got.status != 401 {
			t.Fatalf("%s: got %+v", attempt, got)
		}
	}
	got := logIn(t, s, "a@example.com", false)
	seconds, err := strconv.Atoi(got.header.Get("Retry-After"))
	if waited := int(time.Since(began)/time.Second) + 1; got.status != 429 || err != nil || seconds > 30 || seconds < 30-waited {
		t.Errorf("got %+v, want 429 for 30 s", got)
	}
	if got := logIn(t, s, "b@example.com", false); got.status != 401 {
		t.Errorf("another account: got %d, want 401", got.status)
	}
	for _, status := range []int{200, 204, 302, 303, 400, 403, 500, 502} {
		email := fmt.Sprintf("c%d@example.com", status)
		s.upstream.answers(code(status))
		if status == 502 {
			s.upstream.answers(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}
		for range 3 {
			if got := logIn(t, s, email, false); got.status != status {
				t.Fatalf("got %+v, want %d", got, status)
			}
		}
		s.upstream.answers(password)
		if got := logIn(t, s, email, false); got.status != 401 {
			t.Errorf("after three times %d: got %d, want 401", status, got.status)
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
