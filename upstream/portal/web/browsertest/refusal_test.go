package browsertest_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// TestRefusalPages shows the gate's own pages in a browser: a sign-in that
// is throttled, an API opened without a key, an upstream that is away. The
// browser applies their style under their policy, axe-core finds nothing,
// and they fit on a phone.
func TestRefusalPages(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	browser := browsertest.Start(t)
	looks := map[string][]browsertest.Option{
		"light": nil, "dark-phone": {browsertest.Phone, browsertest.Dark},
	}
	most := 0
	for _, look := range slices.Sorted(maps.Keys(looks)) {
		p := browser.Person(looks[look]...)
		attempts := throttle(t, s, p)
		judge(t, p, look, "throttled", "Too many attempts", "Try again in ")
		if status := p.Press(".back a"); status != http.StatusOK || p.Path() != "/login" || !p.Shows("Password") {
			t.Errorf("%s: the way back leads to %d %s", look, status, p.Path())
		}
		const typed = `document.querySelector("#email").value + " " + document.querySelector("[name=next]").value`
		want := email + " /settings/keys/new"
		if attempts == 1 { // this site saw none of this browser: the place is in the address
			want = " /settings/keys/new"
		}
		if got := browsertest.Evaluate[string](p, typed); got != want {
			t.Errorf("%s: after %d attempts, the form has %q, want %q", look, attempts, got, want)
		}
		most = max(most, attempts)
		if status := p.Go(s.Address + convert); status != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want 401", look, status)
		}
		judge(t, p, look, "no-key", "An API key is required", "Send an API key", "Documentation of the API")
		if status := p.Press(`a[href="/docs"]`); status != http.StatusOK || p.Path() != "/docs" {
			t.Errorf("%s: the link to the docs leads to %d %s", look, status, p.Path())
		}
	}
	if most != 6 {
		t.Errorf("the gate let %d attempts through, want 5", most-1)
	}
}

// throttle signs in with a wrong password until the gate refuses. It returns the
// number of attempts.
func throttle(t *testing.T, s *stack.Stack, p *browsertest.Page) int {
	t.Helper()
	for attempt := range 10 {
		p.Go(s.Address + "/login?next=/settings/keys/new")
		p.Type("#email", email)
		p.Type("#password", "a wrong password")
		if p.Press("main button") == http.StatusTooManyRequests {
			return attempt + 1
		}
	}
	t.Fatal("ten attempts in a minute were let through")
	return 0
}

// judge looks at a page of the gate.
func judge(t *testing.T, p *browsertest.Page, look, name string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !p.Shows(w) {
			t.Errorf("%s, %s: no %q in %q", name, look, w, p.Text("body"))
		}
	}
	if width := browsertest.Evaluate[string](p, `getComputedStyle(document.querySelector("main")).maxWidth`); width != "448px" {
		t.Errorf("%s, %s: the browser did not apply the style: max-width is %s", name, look, width)
	}
	background := browsertest.Evaluate[string](p, `getComputedStyle(document.body).backgroundColor`)
	if dark := background == "rgb(13, 16, 23)"; dark != strings.HasPrefix(look, "dark") {
		t.Errorf("%s, %s: the background is %s", name, look, background)
	}
	if over := browsertest.Evaluate[int](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		t.Errorf("%s, %s: %d pixels wider than the window", name, look, over)
	}
	const small = `[...document.querySelectorAll("a")].filter(a => a.getBoundingClientRect().height < 24).map(a => "less than 24 px high: " + a.textContent)`
	for _, violation := range append(p.Violations(), browsertest.Evaluate[[]string](p, small)...) {
		t.Errorf("%s, %s: %s", name, look, violation)
	}
}
