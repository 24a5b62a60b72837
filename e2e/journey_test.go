package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// issued is what "caddy tollgate key create --json" prints.
type issued struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

func newAccount(t *testing.T, s *stack.Stack, email, plan string) string {
	t.Helper()
	out := s.Upstream("correct horse battery staple\n", "account", "add", "--email", email, "--plan", plan)
	return strings.TrimSpace(out)
}

func newKey(t *testing.T, s *stack.Stack, account, name string) issued {
	t.Helper()
	return decode[issued](t, s.Tollgate("key", "create", account, "--name", name, "--json"))
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decoding %q: %v", text, err)
	}
	return v
}

// code is the code member of a refusal's body.
func code(t *testing.T, body string) string {
	t.Helper()
	return decode[struct{ Message, Code string }](t, body).Code
}

// TestJourney uses accounts, keys, the limit, restarts, a revocation and logins, as
// an operator and two clients do. The programs write no secret.
func TestJourney(t *testing.T) { stack.Forms(t, journey) }

func journey(t *testing.T, form ...string) {
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 2\n"), form...)
	ada := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, ada, "ci")
	other := newKey(t, s, newAccount(t, s, "bob@example.com", "starter"), "ci")
	want := func(when string, token string, status int, refusal string) {
		t.Helper()
		response, text := s.Call("GET", "/api/convert/USD/100/EUR", token, nil)
		if response.StatusCode != status || refusal != "" && code(t, text) != refusal {
			t.Errorf("%s: got %d %s, want %d %s", when, response.StatusCode, text, status, refusal)
		}
	}
	want("the first", key.Token, http.StatusOK, "")
	want("the second", key.Token, http.StatusOK, "")
	want("above the limit", key.Token, http.StatusTooManyRequests, "quota_exceeded")
	want("another account", other.Token, http.StatusOK, "")
	s.StopCaddy()
	s.StartCaddy()
	want("after a restart", key.Token, http.StatusTooManyRequests, "quota_exceeded")
	s.KillCaddy()
	s.StartCaddy()
	want("after kill -9", key.Token, http.StatusTooManyRequests, "quota_exceeded")
	s.Tollgate("key", "revoke", ada, key.ID)
	want("revoked", key.Token, http.StatusUnauthorized, "invalid_token")
	want("mistyped", other.Token[:len(other.Token)-1]+"!", http.StatusUnauthorized, "invalid_token")
	s.Call("POST", "/api/login", "", strings.NewReader(`{"email":"ada@example.com","password":"correct horse battery staple"}`))
	send(t, s, "POST", "/login", url.Values{"email": {"ada@example.com"}, "password": {"wrong"}}.Encode(), browser)
	s.Stop()
	written := s.Log() + read(t, s.AccessLog())
	for _, secret := range []string{key.Token, other.Token[:len(other.Token)-1], stack.Secret, "correct horse", "ada@example.com", "ada%40example.com"} {
		if strings.Contains(written, secret) {
			t.Errorf("the output contains %q:\n%s", secret, written)
		}
	}
	if !strings.Contains(written, `"user_id":"acc_`) {
		t.Error("the access log does not name the account")
	}
}
