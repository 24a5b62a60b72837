package browsertest_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// A person ends one session while its browser has a form open. That browser has
// the form again after the sign-in, as it was filled in; once with JavaScript
// and once without.
func TestFormAfterSignIn(t *testing.T) {
	t.Parallel()
	site, _ := openSite(t, "starter")
	browser := browsertest.Start(t)
	phone := browser.Person(browsertest.PhoneOf(360))
	signUp(t, phone, site)
	for name, options := range map[string][]browsertest.Option{"with JavaScript": {watched}, "without": {browsertest.NoScript}} {
		p := browser.Person(options...)
		enter(p, site)
		p.Go(site + "/settings/keys/new")
		p.Type("#name", "shop backend")
		p.PressHere(`[value="some"]`)
		p.PressHere("summary")
		p.Type(".limit input", "12")
		choose(p, ".limit select:last-child", "convert")
		p.Type("#addresses", "203.0.113.7")

		phone.Go(site + "/settings/sessions")
		if n := browsertest.Evaluate[int](phone, `document.querySelectorAll('[name="session"]').length`); n != 2 {
			t.Fatalf("%s: %d sessions, want 2: %s", name, n, phone.Text("main"))
		}
		phone.Press(`li:not(:has(.state)) [name="session"]`)
		if !phone.Shows("That browser is signed out.") {
			t.Errorf("%s: the sessions say %s", name, phone.Text("main"))
		}
		for _, violation := range phone.Violations() {
			t.Error(violation)
		}

		p.Press("main form .primary")
		if p.Path() != "/login" || !p.Shows("Your session has ended.") {
			t.Fatalf("%s: at %s: %s", name, p.Path(), p.Text("main"))
		}
		enterHere(p)
		const typed = `["#name", ".limit input", ".limit select:last-child", "#addresses", "[name=scope]:checked"].map(s => document.querySelector(s).value).join()`
		if got := browsertest.Evaluate[string](p, typed); p.Path() != "/settings/keys/new" || got != "shop backend,12,convert,203.0.113.7,some" {
			t.Errorf("%s: at %s, the form has %q", name, p.Path(), got)
		}
		p.Press(`form[action="/logout"] button`)
	}
	phone.Go(site + "/settings/sessions")
	phone.Press(`li:has(.state) [name="session"]`)
	if phone.Path() != "/login" || !phone.Shows("You are signed out.") {
		t.Errorf("at %s: %s", phone.Path(), phone.Text("main"))
	}
}

// enter signs in to a site.
func enter(p *browsertest.Page, site string) {
	p.Go(site + "/login")
	enterHere(p)
}

func enterHere(p *browsertest.Page) {
	p.Type("#email", email)
	p.Type("#password", password)
	p.Press("main button")
}
