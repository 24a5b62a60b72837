package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestSeveralSites has two host names. The sites share accounts and counts,
// and the upstream answers calls for both hosts. The access log has no token of
// a reset link.
func TestSeveralSites(t *testing.T) {
	t.Parallel()
	port := stack.FreePorts(t, 1)[0]
	s := stack.Start(t, stack.Shipped(t), "TOLLGATE_ADDRESS=http://one.localhost:"+port+", http://two.localhost:"+port)
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	for _, host := range []string{"one.localhost", "two.localhost"} {
		s.Address = "http://" + host + ":" + port
		if response, body := s.Call("GET", "/api/rates/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
			t.Errorf("%s: got %d %s", host, response.StatusCode, body)
		}
		if response, body := s.Call("POST", "/api/login", "", strings.NewReader(credentials)); response.StatusCode != http.StatusOK {
			t.Errorf("%s: a login got %d %s", host, response.StatusCode, body)
		}
	}
	if got := used(t, s, account, "rates"); got != 2 {
		t.Errorf("counted %d calls, want 2", got)
	}
	token := openResetLink(t, s)
	s.Stop()
	if log := read(t, s.AccessLog()); !strings.Contains(log, `"uri":"REDACTED"`) || strings.Contains(log, token) {
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

// TestLinksOfFailedRequests: the gate logs that the upstream is away, but no token
// of a reset link and no link of the portal. Nor has the access log one.
func TestLinksOfFailedRequests(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	newAccount(t, s, "ada@example.com", "starter")
	token := openResetLink(t, s)
	link, _ := strings.CutPrefix(strings.TrimSpace(s.Tollgate("account", "link", "ada@example.com")), s.Address+"/portal?link=")
	s.StopUpstream()
	for _, path := range []string{"/reset/" + token, "/portal?link=" + link} {
		if response, body := s.Call("GET", path, "", nil); response.StatusCode != http.StatusBadGateway {
			t.Errorf("without upstream, %s got %d %s", path, response.StatusCode, body)
		}
	}
	s.StopCaddy()
	log, access := s.Log(), read(t, s.AccessLog())
	if !strings.Contains(log, "calling the upstream outside endpoints") || !strings.Contains(access, `"uri":"/portal"`) || strings.Contains(log+access, token) || strings.Contains(log+access, link) {
		t.Errorf("the logs must have the failures, and neither %s nor %s:\n%s%s", token, link, log, access)
	}
}
