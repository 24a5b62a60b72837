package browsertest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// limited is a test of limits in a browser.
type limited struct {
	*stack.Stack
	t    *testing.T
	page *browsertest.Page
	// live tells whether the page updates itself.
	live bool
}

// The own limit and the addresses of a key, a limit of the month and an
// override, from the form to the refusal and to My usage; once with
// JavaScript and once without.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with JavaScript": nil, "without": {browsertest.NoScript}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 1000\nconvert 6 month\nhistory 60 minute\n* 40 month\n* 50 second\n"))
			account := addAccount(s, "starter")
			l := limited{s, t, browsertest.Start(t).Person(options...), options == nil}
			signIn(t, s, l.page)
			token := l.makeRestrictedKey()
			l.admit(token)
			l.useUpKey(token)
			l.useUpMonth()
			l.useUpOverride(account)
		})
	}
}

// calls calls convert several times and compares the statuses.
func (l limited) calls(token string, want ...int) {
	l.t.Helper()
	for i, status := range want {
		if got := call(l.Stack, token); got != status {
			l.t.Fatalf("call %d: got %d, want %d", i+1, got, status)
		}
	}
}

// see waits until My usage has some words.
func (l limited) see(words ...string) {
	l.t.Helper()
	if !l.live || l.page.Path() != "/usage" {
		l.page.Go(l.Address + "/usage")
	}
	for _, w := range words {
		l.page.Await("#meters", w)
	}
}

// clean fails if axe-core finds anything on the page.
func (l limited) clean() {
	l.t.Helper()
	if l.live { // axe-core is a script
		for _, violation := range l.page.Violations() {
			l.t.Error(violation)
		}
	}
}

// makeRestrictedKey makes a key with a limit, for another address. The form
// keeps what was typed when the address has a mistake.
func (l limited) makeRestrictedKey() string {
	p := l.page
	p.Go(l.Address + "/settings/keys/new")
	if browsertest.Evaluate[bool](p, `document.querySelector("details").open`) {
		l.t.Error("an empty form shows the limits")
	}
	p.Type("#name", "shop backend")
	p.PressHere("summary")
	p.Type(".limit:nth-of-type(2) input", "2")
	choose(p, ".limit:nth-of-type(2) select:last-child", "convert")
	p.Type("#addresses", "localhost")
	if status := p.Press("main form .primary"); status != http.StatusUnprocessableEntity || !strings.Contains(p.Text("#mistake"), "localhost") {
		l.t.Fatalf("got %d: %s", status, p.Text("main"))
	}
	const typed = `["#name", ".limit input", ".limit select", ".limit select:last-child", "#addresses"].map(s => document.querySelector(s).value).join()`
	if got := browsertest.Evaluate[string](p, typed); got != "shop backend,2,day,convert,localhost" {
		l.t.Errorf("the form has %q after the mistake", got)
	}
	if got := browsertest.Evaluate[string](p, "document.activeElement.id"); got != "addresses" {
		l.t.Errorf("the focus is on %q, want the field with the mistake", got)
	}
	l.clean()
	p.Type("#addresses", "203.0.113.7")
	p.Press("main form .primary")
	if !p.Shows("It works only from 203.0.113.7.") {
		l.t.Errorf("the page says %s", p.Text("main"))
	}
	token := p.Text("#token")
	l.calls(token, http.StatusForbidden, http.StatusForbidden)
	return token
}

// admit changes the addresses of the key, so that it works here.
func (l limited) admit(token string) {
	p := l.page
	l.see("with key shop backend", "0 of 2 used", "0 of 6 used")
	p.Press(`nav a[href="/settings/keys"]`)
	p.Press("table.keys a")
	p.Press(`a[href$="/edit"]`)
	l.clean()
	p.Type("#addresses", "127.0.0.1\n::1")
	p.Press("main form .primary")
	if !p.Shows("The key is changed.") || !p.Shows("127.0.0.1") || p.Shows(token) {
		l.t.Errorf("the page says %s", p.Text("main"))
	}
	l.calls(token, http.StatusOK)
}

// useUpKey calls until the limit of the key refuses.
func (l limited) useUpKey(token string) {
	l.calls(token, http.StatusOK, http.StatusTooManyRequests)
	l.see("2 of 2 used", "2 of 6 used")
	if first := l.page.Text("#meters li:first-child"); !strings.Contains(first, "shop backend") || !strings.Contains(first, "Used up") {
		l.t.Errorf("the first limit is %q, want that of the key", first)
	}
	if paces := l.page.Text("#paces"); !strings.Contains(paces, "All endpoints: at most 50 a second") {
		l.t.Errorf("the paces are %q", paces)
	}
	l.clean()
}

// useUpMonth makes a key without limits and calls until the month refuses.
func (l limited) useUpMonth() {
	p := l.page
	p.Go(l.Address + "/settings/keys/new")
	p.Type("#name", "ci")
	p.Press("main form .primary")
	token := p.Text("#token")
	l.calls(token, http.StatusOK, http.StatusOK, http.StatusOK, http.StatusOK, http.StatusTooManyRequests)
	l.see("6 of 6 used", "This month, resets ")
	// The account is before its keys where both are used up.
	if first := p.Text("#meters li:first-child"); !strings.Contains(first, "6 of 6 used") || !strings.Contains(first, "Used up") {
		l.t.Errorf("the first limit is %q, want that of the month", first)
	}
}

// useUpOverride lets the account call once more.
func (l limited) useUpOverride(account string) {
	l.Tollgate("limit", "set", account, "convert", "7", "--period", "month", "--reason", "a test")
	l.see("6 of 7 used", "Almost used up")
	p := l.page
	p.Go(l.Address + "/settings/keys/new")
	p.Type("#name", "laptop")
	p.Press("main form .primary")
	l.calls(p.Text("#token"), http.StatusOK, http.StatusTooManyRequests)
	l.see("7 of 7 used")
	p.Go(l.Address + "/settings/plan")
	if !p.Shows("6 a month") || !p.Shows("at most 60 a minute") || !p.Shows("All endpoints") {
		l.t.Errorf("the plan says %s", p.Text("main"))
	}
}

// choose chooses an option of a select element.
func choose(p *browsertest.Page, selector, value string) {
	browsertest.Evaluate[string](p, `document.querySelector(`+"`"+selector+"`"+`).value = "`+value+`"`)
}
