package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/server"
)

func (s *site) login(body string) *httptest.ResponseRecorder {
	return s.proven(http.MethodPost, "/api/login", strings.NewReader(body), "Content-Type", "application/json")
}

func credentials(email, password string) string {
	return fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
}

func TestLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(t, "ada@example.com", "starter")
	for name, body := range map[string]string{
		"plain":         credentials("ada@example.com", password),
		"escapes":       `{"email":"\u0061da@example.com","password":"` + password + `"}`,
		"exactly 4 KiB": credentials("ada@example.com", password) + strings.Repeat(" ", 4096-len(credentials("ada@example.com", password))),
	} {
		w := s.login(body)
		var token, kind string
		var seconds int
		_, err := fmt.Sscanf(strings.NewReplacer(`"`, " ", ",", " ").Replace(w.Body.String()),
			"{ token : %s token_type : %s expires_in :%d}", &token, &kind, &seconds)
		if w.Code != http.StatusOK || err != nil || !strings.HasPrefix(token, "tgl_") || kind != "Bearer" || seconds != 86400 {
			t.Errorf("%s: got %d %s (%v)", name, w.Code, w.Body, err)
		}
		if got := w.Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("%s: got Cache-Control %q, want no-store", name, got)
		}
		if got := w.Header().Get("Content-Type"); got != "application/json; charset=utf-8" {
			t.Errorf("%s: got Content-Type %q", name, got)
		}
	}
}

// Bodies that two parsers could read differently are refused, before any
// work is done for them.
func TestLoginBodies(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *server.Config) { c.Login = portal.NewLogin(noLogin{t}, c.Logger) })
	for name, c := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"empty":                   {"", 400, "invalid_request"},
		"duplicate e-mail":        {`{"email":"eve@example.com","email":"ada@example.com","password":"x"}`, 400, "invalid_request"},
		"duplicate by escape":     {`{"email":"eve@example.com","\u0065mail":"ada@example.com","password":"x"}`, 400, "invalid_request"},
		"trailing data":           {`{"email":"ada@example.com","password":"x"}{}`, 400, "invalid_request"},
		"byte order mark":         {"\ufeff" + `{"email":"ada@example.com","password":"x"}`, 400, "invalid_request"},
		"number for e-mail":       {`{"email":1,"password":"x"}`, 400, "invalid_request"},
		"empty password":          {`{"email":"ada@example.com","password":""}`, 400, "invalid_request"},
		"members of another case": {`{"Email":"ada@example.com","PASSWORD":"x"}`, 400, "invalid_request"},
		"invalid UTF-8":           {"{\"email\":\"ada@example.com\",\"password\":\"\xff\"}", 400, "invalid_request"},
		"4 KiB and one byte":      {credentials("ada@example.com", strings.Repeat("x", 4097-len(credentials("ada@example.com", "")))), 413, "body_too_large"},
	} {
		t.Run(name, func(t *testing.T) { checkRefusal(t, s.login(c.body), c.status, c.code) })
	}
	body := credentials("ada@example.com", password)
	for name, header := range map[string][]string{
		"none":            {},
		"another charset": {"Content-Type", "application/json; charset=utf-16"},
		"two":             {"Content-Type", "application/json", "Content-Type", "text/plain"},
		"compressed":      {"Content-Type", "application/json", "Content-Encoding", "gzip"},
	} {
		t.Run("media type, "+name, func(t *testing.T) {
			w := s.proven(http.MethodPost, "/api/login", strings.NewReader(body), header...)
			checkRefusal(t, w, http.StatusUnsupportedMediaType, "unsupported_media_type")
		})
	}
}

// noLogin fails the test if the password is checked.
type noLogin struct{ t *testing.T }

func (n noLogin) Login(context.Context, string, string) (account.Token, error) {
	n.t.Error("a refused body led to a login")
	return account.Token{}, account.ErrCredentials
}

// Threat: the answer reveals whether an address has an account.
func TestLoginRefusalsHaveTheSameBytes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(t, "ada@example.com", "starter")
	closed := s.add(t, "closed@example.com", "starter")
	if err := s.accounts.Set(t.Context(), closed.ID, api.AccountChange{Disabled: new(true)}); err != nil {
		t.Fatal(err)
	}
	first := s.login(credentials("ada@example.com", "wrong password"))
	checkRefusal(t, first, http.StatusUnauthorized, "invalid_credentials")
	for name, body := range map[string]string{
		"unknown address":      credentials("eve@example.com", password),
		"address of 300 bytes": credentials(strings.Repeat("e", 300)+"@example.com", password),
		"disabled":             credentials("closed@example.com", password),
	} {
		w := s.login(body)
		if w.Code != first.Code || w.Body.String() != first.Body.String() || !reflect.DeepEqual(w.Header(), first.Header()) {
			t.Errorf("%s: got %d %v %s, want %d %v %s", name, w.Code, w.Header(), w.Body, first.Code, first.Header(), first.Body)
		}
	}
}

func TestLoginFailures(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.add(t, "ada@example.com", "free")
	checkRefusal(t, s.login(credentials("ada@example.com", password)), http.StatusForbidden, "plan_required")

	s.gate.Stop()
	w := s.login(credentials("ada@example.com", password))
	checkRefusal(t, w, http.StatusServiceUnavailable, "unavailable")
	if got := w.Header().Get("Retry-After"); got != "5" {
		t.Errorf("got Retry-After %q, want 5", got)
	}
	if strings.Contains(w.Body.String(), "127.0.0.1") {
		t.Errorf("got %s, which has the gate's address", w.Body)
	}
	if log := s.log.String(); !strings.Contains(log, "logging in") || strings.Contains(log, "ada@") || strings.Contains(log, "horse") {
		t.Errorf("got log %q, want the cause without the address and the password", log)
	}
}

// Logins above the limit of concurrent checks get a Retry-After.
func TestLoginBusy(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c *server.Config) { c.Login = portal.NewLogin(failing{account.ErrBusy}, c.Logger) })
	w := s.login(credentials("ada@example.com", password))
	checkRefusal(t, w, http.StatusServiceUnavailable, "busy")
	if got := w.Header().Get("Retry-After"); got != "2" {
		t.Errorf("got Retry-After %q, want 2", got)
	}
}

// failing answers every login with an error.
type failing struct{ err error }

func (f failing) Login(context.Context, string, string) (account.Token, error) {
	return account.Token{}, f.err
}
