package browsertest_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// wordmark is a logo that is wider than high, with a style and a script of its
// own.
const wordmark = `<svg xmlns="http://www.w3.org/2000/svg" width="120" height="40">
<style>rect { fill: #0f766e } circle { fill: #fbbf24 }</style><script>document.title = "hacked"</script>
<rect width="120" height="40" rx="8"/><circle cx="24" cy="20" r="10"/><path d="M48 24c8-16 16 12 24 0s16 12 24 0" stroke="#fff" stroke-width="5" fill="none"/></svg>`

// watched makes pages note what their policy forbids.
func watched(ctx context.Context) error {
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `window.forbidden = []; addEventListener("securitypolicyviolation", e => forbidden.push(e.violatedDirective + " " + e.blockedURI))`,
	})
	return err
}

// selfService serves pages for another API than the currency API, with a name,
// a logo and a contact.
func selfService(t *testing.T) (site string, gate *gatetest.Gate) {
	t.Helper()
	gate = gatetest.Start(t)
	a, err := app.Open(t.Context(), app.Options{Directory: t.TempDir(), Control: gate.Client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	site = "http://" + server.Listener.Addr().String()
	logo := filepath.Join(t.TempDir(), "logo.svg")
	if err := os.WriteFile(logo, []byte(wordmark), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Config.Handler, err = a.Handler(app.Site{
		Address: site, Timezone: "UTC", SignUp: "free", NoRates: true,
		Name: "Weather & Tides", Logo: logo, Contact: "help@weather.example",
		Check: func(*http.Request, string) error { return nil },
	})
	if err != nil {
		t.Fatal(errors.Join(err, a.Close()))
	}
	server.Start()
	t.Cleanup(func() {
		server.Close()
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return site, gate
}

// TestSelfServicePages shows the pages of an operator's product: the browser
// paints the logo under the policy of the pages, and runs no script in it.
func TestSelfServicePages(t *testing.T) {
	t.Parallel()
	site, gate := selfService(t)
	browser := browsertest.Start(t)
	for look, options := range map[string][]browsertest.Option{
		"dark-phone": {watched, browsertest.Dark, browsertest.Phone},
	} {
		p := browser.Person(options...)
		p.Go(site + "/")
		judgeBrand(t, p, look, "front")
		p.Go(site + "/signup")
		p.Type("#email", look+"@example.com")
		p.Type("#password", password)
		p.Press("main button")
		judgeBrand(t, p, look, "free")
		page, err := gate.Client.Accounts(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range page.Accounts {
			if _, err := gate.Client.PutAccount(t.Context(), a.Account, api.AccountChange{Plan: new("business")}); err != nil {
				t.Fatal(err)
			}
		}
		p.Go(site + "/settings/keys/new")
		p.Type("#name", "shop backend")
		p.Press("main form .primary")
		judgeBrand(t, p, look, "token")
		p.Go(site + "/settings/keys")
		judgeBrand(t, p, look, "keys")
		p.Go(site + "/docs")
		judgeBrand(t, p, look, "not-found")
	}
	p := browser.Person()
	p.Go(site + "/")
	logo := browsertest.Evaluate[string](p, `document.querySelector(".brand img").src`)
	p.Go(logo)
	if title := browsertest.Evaluate[string](p, `document.querySelector("svg") ? document.title : "no image"`); title != "" {
		t.Errorf("the logo as a page: got the title %q, want a drawing that ran no script", title)
	}
}

// judgeBrand looks at a page with the wordmark.
func judgeBrand(t *testing.T, p *browsertest.Page, look, name string) {
	t.Helper()
	const painted = `(i => i.complete && i.naturalWidth === 120 && i.offsetHeight === 24 && i.offsetWidth === 72)(document.querySelector(".brand img"))`
	if !browsertest.Evaluate[bool](p, painted) {
		t.Errorf("%s, %s: the logo is not painted in its proportions", look, name)
	}
	if forbidden := browsertest.Evaluate[[]string](p, "forbidden"); len(forbidden) != 0 {
		t.Errorf("%s, %s: the policy forbids %v", look, name, forbidden)
	}
	for _, words := range []string{"Weather & Tides", "help@weather.example"} {
		if !p.Shows(words) {
			t.Errorf("%s, %s: does not show %q: %s", look, name, words, p.Text("body"))
		}
	}
	if over := browsertest.Evaluate[int](p, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
		t.Errorf("%s, %s: %d pixels wider than the window", look, name, over)
	}
	if name != "front" {
		return // other tests let axe-core judge the rest of these pages
	}
	for _, violation := range p.Violations() {
		t.Errorf("%s, %s: %s", look, name, violation)
	}
}
