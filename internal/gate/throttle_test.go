package gate_test

import (
	"net/http"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

const person = `{"email":"a@example.com","password":"x"}`

// login tries a password, and tells the status and Retry-After.
func (w *world) login(t *testing.T) (int, string) {
	t.Helper()
	answer, err := w.ask("POST", "/api/login", person, "Content-Type: application/json")
	if err != nil {
		t.Fatal(err)
	}
	return answer.Code, answer.Header().Get("Retry-After")
}

func wrong(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusUnauthorized)
	return nil
}

// TestSuccessesOfAClient: 20 attempts that succeed do not count for the
// client. Those of a strict login do.
func TestSuccessesOfAClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		answer   int // of the service
		strict   bool
		admitted int
	}{
		{"API", 200, false, 25},
		{"form", 303, false, 25},
		{"strict", 200, true, 5},
		{"wrong password", 401, false, 5},
		{"invalid request", 422, false, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(config *policy.Config) {
				if c.strict {
					config.Logins = []string{"POST /api/login strict"}
				}
			})
			w.next = func(writer http.ResponseWriter, _ *http.Request) error {
				writer.WriteHeader(c.answer)
				return nil
			}
			for i := range c.admitted {
				if status, _ := w.login(t); status != c.answer {
					t.Fatalf("attempt %d: got %d, want %d", i+1, status, c.answer)
				}
			}
			if status, wait := w.login(t); status != 429 || wait != "60" {
				t.Errorf("got %d, Retry-After %q after %d attempts; want 429, 60", status, wait, c.admitted)
			}
		})
	}
}

// TestSuccessCountsAtOnce: a success counts before the client can read the
// answer, so that the client's next attempt is not refused.
func TestSuccessCountsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.LoginThrottle = policy.LoginThrottle{PerClient: 1000, FreeFailures: 3}
	})
	w.next = wrong
	w.login(t)
	w.login(t)
	w.next = func(writer http.ResponseWriter, _ *http.Request) error {
		writer.WriteHeader(http.StatusOK)
		w.next = wrong
		if status, _ := w.login(t); status != 401 {
			t.Errorf("got %d", status)
		}
		return nil
	}
	if status, _ := w.login(t); status != 200 {
		t.Errorf("got %d", status)
	}
}

// TestPanicOfLogin: a panic of the handler says nothing about the password.
func TestPanicOfLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.LoginThrottle = policy.LoginThrottle{PerClient: 1000, FreeFailures: 1}
	})
	w.next = func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) }
	for range 3 {
		func() {
			defer func() { recover() }()
			if status, _ := w.login(t); status != 0 {
				t.Errorf("got %d", status)
			}
		}()
	}
	w.next = wrong
	if status, _ := w.login(t); status != 401 {
		t.Errorf("got %d", status)
	}
}

// TestLoginAliasIsLogged: the debug log has the path that the gate refused as
// an alias of a login, so that operators can find the reason.
func TestLoginAliasIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) { c.Logins = []string{"POST /auth/"} })
	core, logged := observer.New(zap.DebugLevel)
	w.gate.Logger = zap.New(core)
	w.next = noUpstream(t)
	got := w.send(t, "POST", "/auth", "")
	if lines := logged.FilterField(zap.String("path", "/auth")).Len(); got.Code != http.StatusNotFound || lines != 1 {
		t.Errorf("got %d and %d lines in the log, want 404 and one", got.Code, lines)
	}
}
