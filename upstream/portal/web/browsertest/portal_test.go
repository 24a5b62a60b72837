package browsertest_test

import (
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// A customer without an account in upstream opens a link, makes a key, calls the
// API, looks at My usage and signs out.
func TestPortalJourney(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 4\n"))
	s.Tollgate("account", "set", "shop-7", "--plan", "starter", "--label", "Shop 7")
	gate, err := client.New(s.Control(), stack.Secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]browsertest.Option{"with JavaScript": nil, "without": {browsertest.NoScript}} {
		link, err := gate.Portal(t.Context(), "shop-7")
		if err != nil {
			t.Fatal(err)
		}
		p := browsertest.Start(t).Person(options...)
		if status := p.Go(link.URL); status != http.StatusOK || p.Path() != "/settings/keys" || !p.Shows("Shop 7") {
			t.Fatalf("%s: got %d at %s: %s", name, status, p.Path(), p.Text("body"))
		}
		if got := p.Text(".tabs"); got != "API keys Plan" && got != "API keys\nPlan" {
			t.Errorf("%s: Settings has %q", name, got)
		}
		checkPage(t, p, options == nil)
		p.Go(s.Address + "/settings/keys/new")
		p.Type("#name", name)
		p.Press("main form .primary")
		if got := call(s, p.Text("#token")); got != http.StatusOK {
			t.Errorf("%s: the key got %d", name, got)
		}
		p.Press(`nav a[href="/usage"]`)
		p.Await("#calls", convert)
		if status := p.Go(s.Address + "/settings/account"); status != http.StatusNotFound {
			t.Errorf("%s: the account's page: got %d", name, status)
		}
		p.Press(".top form button")
		if status := p.Go(link.URL); status != http.StatusGone {
			t.Errorf("%s: replayed: got %d", name, status)
		}
		p.Await("main", "This link does not work")
		checkPage(t, p, options == nil)
	}
}

// checkPage lets axe judge a page, which needs JavaScript.
func checkPage(t *testing.T, p *browsertest.Page, scripts bool) {
	t.Helper()
	if !scripts {
		return
	}
	for _, v := range p.Violations() {
		t.Errorf("at %s: %s", p.Path(), v)
	}
}
