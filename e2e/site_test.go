package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// addresses matches the command in the example that starts the upstream.
var addresses = regexp.MustCompile(`(?m)^#\tTOLLGATE_ADDRESS="(.+)" bin/upstream serve$`)

// TestSeveralSites runs the example of several sites, with the upstream
// command of the example. It calls each site, because the upstream refuses
// calls for unknown hosts. The sites share accounts and counts.
func TestSeveralSites(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(stack.Root(), "examples", "several-sites.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	ports := stack.FreePorts(t, 2)
	example := strings.NewReplacer(":8080", ":"+ports[0], ":9180", ":"+ports[1]).Replace(string(text))
	start := addresses.FindStringSubmatch(example)
	if start == nil {
		t.Fatal("the example lacks the command that starts the upstream")
	}
	s := stack.Start(t, example, "TOLLGATE_ADDRESS="+start[1])
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	for _, host := range []string{"one.localhost", "two.localhost"} {
		s.Address = "http://" + host + ":" + ports[0]
		if response, body := s.Call("GET", "/api/rates/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d %s", host, response.StatusCode, body)
		}
		if response, body := s.Call("POST", "/api/login", "", strings.NewReader(credentials)); response.StatusCode != http.StatusOK {
			t.Errorf("%s: a login got %d %s", host, response.StatusCode, body)
		}
		if response, body := s.Call("GET", "/", "", nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s: the front page got %d %s", host, response.StatusCode, body)
		}
	}
	if got := used(t, s, account, "rates"); got != 2 {
		t.Errorf("counted %d calls, want 2", got)
	}
	token := openResetLink(t, s)
	s.Stop()
	if log := s.Log(); !strings.Contains(log, `"uri":"REDACTED"`) || strings.Contains(log, token) {
		t.Errorf("the access log must have the request, and not the token %s", token)
	}
}

// openResetLink makes a reset link, opens it, and returns its token.
func openResetLink(t *testing.T, s *stack.Stack) (token string) {
	t.Helper()
	_, token, found := strings.Cut(strings.TrimSpace(s.Upstream("", "account", "reset-link", "ada@example.com")), "/reset/")
	if response, body := s.Call("GET", "/reset/"+token, "", nil); !found || response.StatusCode != http.StatusOK {
		t.Errorf("the reset link got %d %s", response.StatusCode, body)
	}
	return token
}

// TestResetLinkOfFailedRequest: the gate logs that the upstream is away, but
// not the address of the request.
func TestResetLinkOfFailedRequest(t *testing.T) {
	stack.SkipInOneProcess(t, "it stops the upstream")
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	newAccount(t, s, "ada@example.com", "starter")
	token := openResetLink(t, s)
	s.StopUpstream()
	if response, body := s.Call("GET", "/reset/"+token, "", nil); response.StatusCode != http.StatusBadGateway {
		t.Errorf("without upstream, the reset link got %d %s", response.StatusCode, body)
	}
	s.StopCaddy()
	if log := s.Log(); !strings.Contains(log, "calling the upstream outside endpoints") || strings.Contains(log, token) {
		t.Errorf("the log must have the failure, and not the token %s:\n%s", token, log)
	}
}
