package e2e_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestSecretRotation changes the secret while clients call: first the gate has
// both, then upstream gets the new one, then the gate forgets the old one. Calls
// fail only while upstream restarts.
func TestSecretRotation(t *testing.T) { stack.Forms(t, rotateSecret) }

func rotateSecret(t *testing.T, form ...string) {
	const next = "8f1ba003ff11925cd407e9602db8437ec1953afa1e66840d5972abcf301ce24f"
	s := stack.Start(t, stack.Shipped(t), form...)
	account := newAccount(t, s, "secret@example.com", "business")
	key := newKey(t, s, account, "k")
	control := func(secret string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, s.Control()+"/tollgate/plans", nil)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+secret)
		response, err := http.DefaultClient.Do(r)
		must(t, err)
		defer response.Body.Close()
		return response.StatusCode
	}
	during := func(what string, change func()) {
		t.Helper()
		stop := make(chan struct{})
		end := sync.OnceFunc(func() { close(stop) })
		defer end()
		counts := load(s, key.Token, 4, stop)
		change()
		// Calls after the change, and a login, which needs the control API.
		for range 20 {
			if response, body := answered(t, s, "GET", ratesPath, key.Token, ""); response.StatusCode != http.StatusOK {
				t.Fatalf("%s: a call got %d %s", what, response.StatusCode, body)
			}
		}
		login := `{"email":"secret@example.com","password":"correct horse battery staple"}`
		if response, body := answered(t, s, "POST", "/api/login", "", login); response.StatusCode != http.StatusOK {
			t.Fatalf("%s: a login got %d %s", what, response.StatusCode, body)
		}
		end()
		for status, n := range counts() {
			if status != http.StatusOK && status != noAnswer {
				t.Errorf("%s: %d calls got %d", what, n, status)
			}
		}
	}
	reload := func(secret string) {
		t.Helper()
		s.Configure(stack.Shipped(t, "secret {env.TOLLGATE_SECRET}", "secret "+secret))
		must(t, s.Reload())
	}

	during("both secrets", func() { reload(next + ` "` + stack.Secret + `"`) })
	if old, new, other := control(stack.Secret), control(next), control(strings.Repeat("x", 64)); old != 200 || new != 200 || other != 401 {
		t.Errorf("the control API answers the old secret with %d, the new one with %d, another with %d", old, new, other)
	}
	if keys := strings.Count(s.Tollgate("jwks"), `"kid"`); keys != 2 {
		t.Errorf("the key set has %d keys, want 2", keys)
	}
	if !strings.Contains(s.Log(), "the secret may be weak") {
		t.Error("no warning of a secret that is not random")
	}
	s.Set("TOLLGATE_SECRET", next)
	if !s.IsOneProcess() {
		s.StopUpstream()
		s.StartUpstream()
	}
	during("the new secret", func() { reload(next) })
	if old, new := control(stack.Secret), control(next); old != 401 || new != 200 {
		t.Errorf("the control API answers the old secret with %d, the new one with %d", old, new)
	}
	if strings.Contains(s.Log(), next) || strings.Contains(s.Log(), stack.Secret) {
		t.Error("a log has a secret")
	}
}
