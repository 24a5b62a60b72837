package browsertest_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// openSite serves the pages of a site on which strangers sign up. resetLink
// makes a link as the command line does.
func openSite(t *testing.T, plan string) (site string, resetLink func(id string) string) {
	t.Helper()
	gate := gatetest.Start(t)
	options := app.Options{Directory: t.TempDir(), Control: gate.Client, Logger: slog.New(slog.DiscardHandler)}
	a, err := app.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	site = "http://" + server.Listener.Addr().String()
	server.Config.Handler, err = a.Handler(app.Site{
		Address: site, Timezone: "UTC", SignUp: plan, NoRates: true, Contact: "help@weather.example",
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
	return site, func(id string) string {
		t.Helper()
		store, err := options.OpenDatabase(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reset, err := options.Accounts(store).NewReset(t.Context(), id)
		if err := errors.Join(err, store.Close()); err != nil {
			t.Fatal(err)
		}
		return site + "/reset/" + reset.Token
	}
}

// The life of an account in a browser: sign-up, first key, reset of the
// password, and the end; once with JavaScript and once without.
func TestAccountLife(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with JavaScript": {watched}, "without": {browsertest.NoScript}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			site, resetLink := openSite(t, "starter")
			browser := browsertest.Start(t)
			p, phone := browser.Person(options...), browser.Person(browsertest.Phone)
			signUp(t, p, site)
			firstKey(t, p)
			p.Go(site + "/settings/account")
			link := resetLink(p.Text("main dd code"))
			resetPassword(t, phone, site, link)
			p.Go(site + "/settings/account")
			if p.Path() != "/login" || !p.Shows("Your session has ended") {
				t.Errorf("after the reset: at %s, want the sign-in", p.Path())
			}
			phone.Go(link)
			if !phone.Shows("This link does not work") || !phone.Shows("Need help? Contact") {
				t.Errorf("a spent link shows %s", phone.Text("main"))
			}
			closeAccount(t, phone, site)
		})
	}
}

const chosen = "trombone velvet acorn ladder"

func signUp(t *testing.T, p *browsertest.Page, site string) {
	t.Helper()
	p.Go(site + "/signup")
	p.Type("#email", email)
	p.Type("#password", "passwordpassword1")
	if status := p.Press("main button"); status != http.StatusUnprocessableEntity || !p.Shows("This password is easy to guess") {
		t.Errorf("a password that is easy to guess: got %d %s", status, p.Text("main"))
	}
	p.Type("#password", password)
	if status := p.Press("main button"); status != http.StatusOK || p.Path() != "/settings/keys" || !p.Shows("Your account is ready.") {
		t.Fatalf("got %d at %s: %s", status, p.Path(), p.Text("main"))
	}
}

func firstKey(t *testing.T, p *browsertest.Page) {
	t.Helper()
	p.Press(".empty .primary")
	p.Type("#name", "first")
	p.Press("main form .primary")
	if !p.Shows("first is ready") {
		t.Errorf("no key: %s", p.Text("main"))
	}
}

// resetPassword opens a link as a person with another browser does.
func resetPassword(t *testing.T, p *browsertest.Page, site, link string) {
	t.Helper()
	p.Go(site + "/login")
	if !p.Shows("Forgot your password? Contact us") {
		t.Errorf("the sign-in has no help: %s", p.Text("main"))
	}
	for range 2 { // to open it does not spend it
		if status := p.Go(link); status != http.StatusOK || !p.Shows(email) {
			t.Fatalf("the link: got %d %s", status, p.Text("main"))
		}
	}
	p.Type("#password", chosen)
	if status := p.Press("main button"); status != http.StatusOK || p.Path() != "/login" || !p.Shows("Sign in with the new password.") {
		t.Fatalf("got %d at %s: %s", status, p.Path(), p.Text("main"))
	}
	if referrer := browsertest.Evaluate[string](p, "document.referrer"); referrer != "" {
		t.Errorf("the browser sent the address of the link to another page: %s", referrer)
	}
	p.Type("#email", email)
	p.Type("#password", chosen)
	if p.Press("main button"); p.Path() != "/usage" {
		t.Fatalf("at %s, want My usage", p.Path())
	}
}

func closeAccount(t *testing.T, p *browsertest.Page, site string) {
	t.Helper()
	p.Go(site + "/settings/account")
	if export := browsertest.EvaluateAsync[string](p, `fetch("/settings/account/export").then(r => r.json()).then(d => d.account.email + " " + d.keys[0].name)`); export != email+" first" {
		t.Errorf("the export has %s", export)
	}
	p.Type("#current", "a wrong guess")
	if status := p.Press("main form .danger"); status != http.StatusUnauthorized || !p.Shows("This is not your current password") {
		t.Errorf("a wrong password: got %d %s", status, p.Text("main"))
	}
	p.Type("#current", chosen)
	if status := p.Press("main form .danger"); status != http.StatusOK || p.Path() != "/" || !p.Shows("Your account is closed.") {
		t.Fatalf("got %d at %s: %s", status, p.Path(), p.Text("main"))
	}
	if p.Cookie("tollgate") != nil {
		t.Error("the cookie is there")
	}
}
