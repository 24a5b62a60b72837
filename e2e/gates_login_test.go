package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// loginAnswer is the answer to a login.
type loginAnswer struct {
	status     int
	retryAfter string
	Code       string
	Token      string
}

// String returns the status and the code of a refusal.
func (a loginAnswer) String() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", a.status, a.Code))
}

// logIn tries a login through one gate, as the client with this address.
func logIn(t *testing.T, s *stack.Stack, from, email, password string) loginAnswer {
	body := fmt.Sprintf(`{"email":%q,"password":%q}`, email, password)
	request, err := http.NewRequestWithContext(t.Context(), "POST", s.Address+"/api/login", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return loginAnswer{}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Forwarded-For", from)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return loginAnswer{}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	answer := loginAnswer{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After")}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		t.Errorf("reading %q: %v", text, err)
	}
	return answer
}

const (
	right       = "correct horse battery staple"
	badPassword = "401 invalid_credentials"
	throttled   = "429 too_many_attempts"
	perClient   = 3
)

// expectThrottled tries logins of a client that has used its attempts.
func expectThrottled(t *testing.T, s *stack.Stack, from string) {
	t.Helper()
	got := logIn(t, s, from, "nobody@example.com", "wrong")
	if wait, err := strconv.Atoi(got.retryAfter); got.String() != throttled || err != nil || wait < 1 || wait > 600 {
		t.Errorf("%s: got %s, Retry-After %q, want %s", from, got, got.retryAfter, throttled)
	}
}

// TestSeveralGatesLogin tries passwords through three gates. A client has as
// many attempts as with one gate. While redis is away, each gate limits the
// attempts by itself, and then again all together. No login succeeds meanwhile.
func TestSeveralGatesLogin(t *testing.T) {
	t.Parallel()
	g := startGates(t, "0rtt off\n", "0rtt off\n\t\ttrusted_proxies static private_ranges\n\t\ttrusted_proxies_strict\n",
		"per_client 5 1m", fmt.Sprintf("per_client %d 10m", perClient), "timeout 500ms", "timeout 2s")
	newAccount(t, g.all[0], "ada@example.com", "starter")

	for i := range perClient {
		if got := logIn(t, g.all[i%3], "203.0.113.1", fmt.Sprintf("eve%d@example.com", i), "wrong"); got.String() != badPassword {
			t.Errorf("attempt %d: got %s", i+1, got)
		}
	}
	for _, s := range g.all {
		expectThrottled(t, s, "203.0.113.1")
	}
	g.guessAtOnce(t, "203.0.113.2")
	g.expectLogin(t, "203.0.113.3")

	must(t, g.redis.Kill())
	for i := range g.all {
		g.awaitStatus(t, i, api.Unavailable)
	}
	// Upstream cannot ask for the account, so a right password gets the same
	// answer as a wrong one.
	const unavailable = "503 unavailable"
	for n, password := range []string{right, "wrong", right} {
		if got := logIn(t, g.all[1], "203.0.113.4", "ada@example.com", password); got.String() != unavailable || got.retryAfter != "5" {
			t.Errorf("without redis, attempt %d: got %s, Retry-After %q", n+1, got, got.retryAfter)
		}
	}
	expectThrottled(t, g.all[1], "203.0.113.4")
	if got := logIn(t, g.all[2], "203.0.113.4", "ada@example.com", right); got.String() != unavailable {
		t.Errorf("without redis, another gate: got %s", got)
	}

	must(t, g.redis.Restart())
	for i := range g.all {
		g.awaitStatus(t, i, api.Ready)
	}
	for _, s := range g.all {
		expectThrottled(t, s, "203.0.113.1")
	}
	g.guessAtOnce(t, "203.0.113.6")
	g.expectLogin(t, "203.0.113.7")
}

// guessAtOnce tries many passwords at the same time through all gates.
func (g *gates) guessAtOnce(t *testing.T, from string) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	answers := map[string]int{}
	const guesses = 30
	for i := range guesses {
		group.Go(func() {
			got := logIn(t, g.all[i%3], from, fmt.Sprintf("mallory%d@example.com", i), "wrong").String()
			mu.Lock()
			defer mu.Unlock()
			answers[got]++
		})
	}
	group.Wait()
	if answers[badPassword] != perClient || answers[throttled] != guesses-perClient {
		t.Errorf("got %v, want %d times %s, all others %s", answers, perClient, badPassword, throttled)
	}
}

// expectLogin logs in through each gate. The token opens the next gate.
func (g *gates) expectLogin(t *testing.T, from string) {
	t.Helper()
	for i, s := range g.all {
		login := logIn(t, s, from, "ada@example.com", right)
		if login.status != http.StatusOK {
			t.Errorf("gate %d: got %s", i+1, login)
			continue
		}
		if got := ask(g.all[(i+1)%3], login.Token); got != "200" {
			t.Errorf("the token of gate %d: got %s", i+1, got)
		}
	}
}
