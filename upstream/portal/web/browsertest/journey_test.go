package browsertest_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

const (
	email    = "ada@example.com"
	password = "correct horse battery staple"
	convert  = "/api/convert/EUR/10/USD"
)

func addAccount(s *stack.Stack, plan string) string {
	return strings.TrimSpace(s.Upstream(password+"\n", "account", "add", "--email", email, "--plan", plan))
}

func signIn(t *testing.T, s *stack.Stack, p *browsertest.Page) {
	t.Helper()
	p.Go(s.Address + "/usage")
	if got := p.Path(); got != "/login" {
		t.Fatalf("at %s, want the sign-in", got)
	}
	p.Type("#email", email)
	p.Type("#password", password)
	if status := p.Press("main button"); status != http.StatusOK || p.Path() != "/usage" {
		t.Fatalf("got %d at %s, want My usage", status, p.Path())
	}
}

// call calls the API and returns the status.
func call(s *stack.Stack, token string) int {
	response, _ := s.Call(http.MethodGet, convert, token, nil)
	return response.StatusCode
}

// The life of a key in a browser, from the sign-in to the end of all
// sessions, through the real Caddy; once with JavaScript and once
// without.
func TestJourney(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with JavaScript": nil, "without": {browsertest.NoScript}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 4\n"))
			addAccount(s, "starter")
			browser := browsertest.Start(t)
			p := browser.Person(options...)
			signIn(t, s, p)
			token := makeKey(t, s, p)
			runToTheLimit(t, s, p, token, options == nil)
			rotateAndRevoke(t, s, p, token)
			elsewhere := browser.Person(options...)
			signIn(t, s, elsewhere)
			signOut(t, s, p, elsewhere)
		})
	}
}

// makeKey makes a key and runs the command that the page offers.
func makeKey(t *testing.T, s *stack.Stack, p *browsertest.Page) string {
	t.Helper()
	p.Press(`nav a[href="/settings/keys"]`)
	if !p.Shows("No keys yet") {
		t.Errorf("the empty list teaches nothing: %s", p.Text("main"))
	}
	p.Press(`a[href="/settings/keys/new"]`)
	p.Type("#name", "shop backend")
	p.Press("main form .primary")
	token := p.Text("#token")
	out, err := exec.CommandContext(t.Context(), "sh", "-c", p.Text("#sample")+" -s").CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"currencies"`) && !strings.Contains(string(out), `"result"`) {
		t.Errorf("the command: %v\n%s", err, out)
	}
	p.Press(`nav a[href="/settings/keys"]`)
	if p.Shows(token) || !p.Shows("tgk_…"+token[len(token)-4:]) || !p.Shows("Active") {
		t.Errorf("the list must show the hint and not the token: %s", p.Text("main"))
	}
	return token
}

// runToTheLimit calls until the gate refuses, and watches My usage. With
// JavaScript the page shows the calls by itself.
func runToTheLimit(t *testing.T, s *stack.Stack, p *browsertest.Page, token string, live bool) {
	t.Helper()
	p.Press(`nav a[href="/usage"]`)
	see := func(selector, words string) {
		t.Helper()
		if !live {
			p.Go(s.Address + "/usage")
		}
		p.Await(selector, words)
	}
	for want := range 4 {
		if got := call(s, token); got != http.StatusOK {
			t.Fatalf("call %d: got %d", want+1, got)
		}
	}
	see("#calls", convert)
	see("#meters", "4 of 4 used")
	see("#meters", "Used up")
	see("#calls", "shop backend")
	if got := call(s, token); got != http.StatusTooManyRequests {
		t.Errorf("the call after the last: got %d, want 429", got)
	}
	see("#calls", "429")
}

// rotateAndRevoke gives the key another token and then ends it.
func rotateAndRevoke(t *testing.T, s *stack.Stack, p *browsertest.Page, token string) {
	t.Helper()
	usage := func(token string) int {
		response, _ := s.Call(http.MethodGet, "/api/usage", token, nil)
		return response.StatusCode
	}
	p.Press(`nav a[href="/settings/keys"]`)
	p.Press("table.keys a")
	p.Press(`a[href$="/rotate"]`)
	p.PressHere(`.segments label:first-child span`)
	p.Press("main form .primary")
	next := p.Text("#token")
	if old, fresh := usage(token), usage(next); old != http.StatusUnauthorized || fresh != http.StatusOK {
		t.Errorf("after the rotation: the old token got %d, the new one %d; want 401 and 200", old, fresh)
	}
	p.Press(`nav a[href="/settings/keys"]`)
	p.Press("table.keys a")
	p.Press(`a[href$="/revoke"]`)
	if !p.Shows("Revoke shop backend?") {
		t.Errorf("the question does not name the key: %s", p.Text("main"))
	}
	p.Press("main form .danger")
	if !p.Shows("The key is revoked.") {
		t.Errorf("nothing says that the key is revoked: %s", p.Text("main"))
	}
	if got := usage(next); got != http.StatusUnauthorized {
		t.Errorf("after the revocation: got %d, want 401", got)
	}
}

// signOut signs out elsewhere and here.
func signOut(t *testing.T, s *stack.Stack, p, elsewhere *browsertest.Page) {
	t.Helper()
	p.Go(s.Address + "/settings/sessions")
	p.Press("main form .primary")
	elsewhere.Go(s.Address + "/settings/keys")
	if elsewhere.Path() != "/login" || !elsewhere.Shows("Your session has ended") {
		t.Errorf("elsewhere: at %s, want the sign-in", elsewhere.Path())
	}
	cookie := p.Cookie("tollgate")
	if cookie == nil || !cookie.HTTPOnly {
		t.Fatalf("the cookie is %+v, want one that scripts cannot read", cookie)
	}
	p.Press(".top form button")
	if p.Path() != "/login" || !p.Shows("You are signed out.") || p.Cookie("tollgate") != nil {
		t.Errorf("at %s with the cookie %v", p.Path(), p.Cookie("tollgate"))
	}
	p.Go(s.Address + "/settings/keys")
	if p.Path() != "/login" {
		t.Errorf("signed out, at %s", p.Path())
	}
}
