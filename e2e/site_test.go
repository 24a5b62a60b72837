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

// TestResetLinkOfFailedRequest: the gate logs that the upstream is away, but
// not the address of the request.
func TestResetLinkOfFailedRequest(t *testing.T) {
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

// TestPortalLink: the command line and the control API make links to the site,
// and each reaches the upstream. Neither the access log nor the log has a link,
// also if the upstream is away.
func TestPortalLink(t *testing.T) { stack.Forms(t, openPortalLink) }

func openPortalLink(t *testing.T, form ...string) {
	s := stack.Start(t, stack.Shipped(t), form...)
	account := newAccount(t, s, "ada@example.com", "starter")
	first := strings.TrimSpace(s.Tollgate("account", "link", "ada@example.com", "--reason", "no password"))
	second := decode[struct{ URL string }](t, s.Tollgate("account", "link", account, "--json")).URL
	if first == second {
		t.Error("two links are the same")
	}
	if audit := s.Tollgate("audit", "--account", account); !strings.Contains(audit, "portal.create") || !strings.Contains(audit, "no password") {
		t.Errorf("the audit log has no link and reason:\n%s", audit)
	}
	links := []string{first, second}
	for i, link := range links {
		path, found := strings.CutPrefix(link, s.Address)
		if !found || !strings.HasPrefix(path, "/portal?link=ey") {
			t.Fatalf("the link is %s, want one to %s", link, s.Address)
		}
		if i == 1 && !s.IsOneProcess() {
			s.StopUpstream()
		}
		if response, body := s.Call("GET", path, "", nil); (response.StatusCode == http.StatusBadGateway) != (i == 1 && !s.IsOneProcess()) {
			t.Errorf("link %d got %d %s", i, response.StatusCode, body)
		}
	}
	s.StopCaddy()
	access, log := read(t, s.AccessLog()), s.Log()
	for _, link := range links {
		if _, text, _ := strings.Cut(link, "link="); strings.Contains(access+log, text) {
			t.Errorf("a log has the link %s", link)
		}
	}
	if n := strings.Count(access, `"uri":"/portal"`); n != len(links) {
		t.Errorf("the access log has %d links, want %d", n, len(links))
	}
}
