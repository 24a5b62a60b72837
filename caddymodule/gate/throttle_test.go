package gate_test

import (
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
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

// TestAttemptsInAWindow: five attempts are admitted in any 60 seconds. A
// client that waits Retry-After is admitted, and an earlier one is not.
func TestAttemptsInAWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.next = wrong
	for _, step := range []struct {
		at     time.Duration
		status int
		wait   string
	}{
		{0, 401, ""}, {10 * time.Second, 401, ""}, {20 * time.Second, 401, ""}, {30 * time.Second, 401, ""}, {40 * time.Second, 401, ""},
		{41 * time.Second, 429, "19"},
		{59500 * time.Millisecond, 429, "1"}, // rounded up
		{60*time.Second - 1, 429, "1"},
		{60 * time.Second, 401, ""},
		{60 * time.Second, 429, "10"},
		{70 * time.Second, 401, ""},
	} {
		w.set(noon.Add(step.at))
		if status, wait := w.login(t); status != step.status || wait != step.wait {
			t.Errorf("after %v: got %d, Retry-After %q; want %d, %q", step.at, status, wait, step.status, step.wait)
		}
	}
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
		{"strict form", 303, true, 5},
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

// TestWaitOfAnAccount: each failure doubles the wait, up to the longest one.
func TestWaitOfAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.LoginThrottle = policy.LoginThrottle{
			PerClient: 1000, FreeFailures: 3,
			FirstWait: policy.Duration(30 * time.Second), MaxWait: policy.Duration(100 * time.Second),
		}
	})
	w.next = wrong
	for range 3 {
		if status, _ := w.login(t); status != 401 {
			t.Fatalf("got %d", status)
		}
	}
	for i, wait := range []string{"30", "60", "100", "100"} {
		if status, got := w.login(t); status != 429 || got != wait {
			t.Errorf("failure %d: got %d, Retry-After %q; want 429, %q", i, status, got, wait)
		}
		seconds, err := time.ParseDuration(wait + "s")
		if err != nil {
			t.Fatal(err)
		}
		w.set(w.clock().Add(seconds))
		if status, _ := w.login(t); status != 401 {
			t.Errorf("failure %d, waited for: got %d", i, status)
		}
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
	w.next = func(http.ResponseWriter, *http.Request) error {
		t.Error("the upstream was asked")
		return nil
	}
	answer, err := w.ask("POST", "/auth", "")
	if err != nil || answer.Code != http.StatusNotFound {
		t.Errorf("got %d, %v, want 404", answer.Code, err)
	}
	if entries := logged.FilterField(zap.String("path", "/auth")).All(); len(entries) != 1 || entries[0].Level != zap.DebugLevel {
		t.Errorf("got %d lines in the log, want one at level debug", len(entries))
	}
}
