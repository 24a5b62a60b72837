package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestOneProcessReload reloads the configuration of one process under load:
// calls with several keys, pages and logins. Some reloads fail. No request
// fails, the count is exact, and no goroutine or file remains. A server that
// stops can close a new or idle connection during a request, also without a
// gate. Such a call may count or not.
func TestOneProcessReload(t *testing.T) {
	t.Parallel()
	rounds := 4
	if storetest.Long() {
		rounds = 51 // two of its four configurations load
	}
	s := stack.Start(t, stack.Shipped(t, "rates 1000\n", "rates unlimited\n", "per_client 5 1m", "per_client 1000 1s"), stack.OneProcess)
	configurations := reloads(t, s)
	account := newAccount(t, s, "ada@example.com", "starter")
	first, second := newKey(t, s, account, "first"), newKey(t, s, account, "second")
	var goroutines, files int
	var answered, broken int64
	for round := range rounds {
		stop := make(chan struct{})
		calls := []func() map[int]int64{
			load(s, first.Token, 3, stop), load(s, second.Token, 3, stop),
			repeat(2, stop, func() (*http.Response, string, error) { return s.TryCall("GET", "/", "", nil) }),
			repeat(1, stop, func() (*http.Response, string, error) { return login(s) }),
		}
		for _, c := range configurations {
			c.load(t, s)
		}
		close(stop)
		for i, counts := range calls {
			answers := counts()
			ok, cut := answers[http.StatusOK], answers[noAnswer]
			delete(answers, http.StatusOK)
			delete(answers, noAnswer)
			if len(answers) > 0 || ok == 0 {
				t.Errorf("round %d, load %d: got %d answers with 200, %d broken connections and %v, want nothing but 200", round, i, ok, cut, answers)
			}
			if broken += cut; i < 2 {
				answered += ok
			}
		}
		if round == 0 {
			goroutines, files = s.Resources()
		}
	}
	// A reload can break each connection once.
	if most := int64(9 * len(configurations) * rounds); broken > most {
		t.Errorf("%d connections broke, and %d calls got 200; want %d at most", broken, answered, most)
	}
	if got := used(t, s, account, "rates"); got < answered || got > answered+broken {
		t.Errorf("counted %d calls, clients got %d, and %d broke", got, answered, broken)
	}
	eventually(t, "goroutines and files to end", func() error {
		nowGoroutines, nowFiles := s.Resources()
		t.Logf("%d goroutines and %d files, after the first round %d and %d", nowGoroutines, nowFiles, goroutines, files)
		// Pools of connections grow a little. A leak of one for each reload is
		// twice the rounds.
		if slack := min(rounds, 10); nowGoroutines > goroutines+slack || nowFiles > files+slack {
			return fmt.Errorf("%d goroutines and %d files, after the first round %d and %d", nowGoroutines, nowFiles, goroutines, files)
		}
		return nil
	})
}

// reload is a configuration, and what the running one has after it is loaded.
type reload struct {
	text   string
	fails  string // part of the error, or "" if it loads
	signUp int    // status of the page
}

// reloads returns configurations that change the running one, and some that
// fail to load.
func reloads(t *testing.T, s *stack.Stack) []reload {
	t.Helper()
	text, err := os.ReadFile(s.Caddyfile)
	must(t, err)
	changed := func(old, changed string) string {
		if !strings.Contains(string(text), old) {
			t.Fatalf("the Caddyfile has no %q", old)
		}
		return strings.Replace(string(text), old, changed, 1)
	}
	const database = "database {env.TOLLGATE_DATABASE}"
	signUp := changed("signup {env.TOLLGATE_SIGNUP}", "signup on")
	return []reload{
		{signUp, "", http.StatusOK},
		{changed(database, "database postgres://127.0.0.1:1/none?connect_timeout=1"), "PostgreSQL", http.StatusOK},
		{changed("rates unlimited\n", "rates 1000000\n"), "", http.StatusNotFound},
		{changed(`address "{$TOLLGATE_ADDRESS:http://localhost:8080}"`, "address ftp://rates.example"), "address", http.StatusNotFound},
	}
}

// load loads the configuration.
func (r reload) load(t *testing.T, s *stack.Stack) {
	t.Helper()
	s.Configure(r.text)
	err := s.Reload()
	if (err != nil) != (r.fails != "") || err != nil && !strings.Contains(err.Error(), r.fails) {
		t.Errorf("got error %v, want one with %q", err, r.fails)
	}
	if response, text := answered(t, s, "GET", "/signup", "", ""); response.StatusCode != r.signUp {
		t.Errorf("the page to sign up answers %d %.300s, want %d", response.StatusCode, text, r.signUp)
	}
}

// login logs in as ada@example.com.
func login(s *stack.Stack) (*http.Response, string, error) {
	return s.TryCall("POST", "/api/login", "", strings.NewReader(credentials))
}
