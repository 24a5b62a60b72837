package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

// portalPath makes a portal link and returns its path with the query.
func (w *world) portalPath(id string) string {
	w.t.Helper()
	made, err := w.gate.Client.Portal(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimPrefix(made.URL, "http://localhost:8080")
}

// external makes an account that only the gate has, with a key of its own.
func (w *world) external(id string) (key string) {
	w.t.Helper()
	_, err := w.gate.Client.PutAccount(w.t.Context(), id, api.AccountChange{Plan: new("starter"), Label: new("Shop <b>7</b>")})
	if err != nil {
		w.t.Fatal(err)
	}
	made, err := w.gate.Client.CreateKey(w.t.Context(), id, api.KeyRequest{Name: "key of " + id})
	if err != nil {
		w.t.Fatal(err)
	}
	return made.ID
}

func (p *person) enter(link string) *person {
	p.t.Helper()
	if got := p.get(link); got.status != http.StatusSeeOther || got.location != "/settings/keys" {
		p.t.Fatalf("got %d to %q: %s", got.status, got.location, got.body)
	}
	return p
}

// A link opens keys and usage of an account that has no e-mail here, and
// nothing else.
func TestPortal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.external("shop-7")
	shop := w.person()
	got := shop.do(http.MethodGet, w.portalPath("shop-7"), nil)
	if got.location != "/settings/keys" || got.header.Get("Cache-Control") != "no-store" || got.header.Get("Referrer-Policy") != "strict-origin" {
		t.Fatalf("got %d to %q: %v", got.status, got.location, got.header)
	}
	page := shop.get("/settings/keys")
	page.has(t, http.StatusOK, "key of shop-7", `<span class="email">Shop &lt;b&gt;7&lt;/b&gt;</span>`, `href="/settings/plan"`, "Sign out")
	for _, path := range []string{"/settings/password", "/settings/sessions", "/settings/account"} {
		if strings.Contains(page.body, path) {
			t.Errorf("the menu has %s", path)
		}
	}
	shop.get("/usage").has(t, http.StatusOK, "My usage")
	shop.get("/settings/plan").has(t, http.StatusOK, "starter")
	shop.makeKey("another")
	if keys := w.keys("shop-7"); len(keys) != 2 {
		t.Errorf("the account has the keys %q, want two", keys)
	}
	if got := shop.post("/logout"); got.location != "/login?done=signed-out" || shop.signedIn() {
		t.Errorf("sign-out: got %d to %q", got.status, got.location)
	}
	// Without a label the head has the id.
	if _, err := w.gate.Client.PutAccount(t.Context(), "plain", api.AccountChange{}); err != nil {
		t.Fatal(err)
	}
	w.person().enter(w.portalPath("plain")).get("/usage").has(t, http.StatusOK, `<span class="email">plain</span>`)
}

// The audit log tells the changes of a portal visit from those of a person who knows
// the password.
func TestPortalInTheAuditLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	for want, p := range map[string]*person{"portal visit": w.person().enter(w.portalPath(a.ID)), "": w.person().signIn("ada@example.com")} {
		id := p.makeKey("made")
		at := "/settings/keys/" + id
		p.post(at+"/edit", "name", "changed", "scope", "all", "life", "unchanged")
		p.post(at+"/rotate", "overlap", "0")
		keys, err := w.gate.Client.Keys(t.Context(), a.ID, client.KeyFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			p.post("/settings/keys/" + k.ID + "/revoke")
		}
		actions := map[string]bool{}
		for _, e := range w.last(a.ID, 4) {
			if actions[e.Action] = true; e.Reason != want || e.Actor != (api.Actor{Kind: api.ActorPerson, ID: a.ID, Label: "ada@example.com"}) {
				t.Errorf("%q: got %+v", want, e)
			}
		}
		for _, action := range []string{api.KeyCreate, api.KeySet, api.KeyRotate, api.KeyRevoke} {
			if !actions[action] {
				t.Errorf("%q: no %s among %v", want, action, actions)
			}
		}
	}
}

// Threat: a customer of the operator takes the account over, by its password,
// or reads what a link does not open.
func TestPortalHasNoAccountPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.add("ada@example.com", "starter")
	ada, phone := w.person().enter(w.portalPath(a.ID)), w.person().signIn("ada@example.com")
	unknown := ada.get("/settings/unknown")
	unknown.has(t, http.StatusNotFound, "Page not found")
	for _, path := range []string{"/settings/password", "/settings/sessions", "/settings/account"} {
		for _, got := range []answer{ada.get(path), ada.post(path, "current", password, "password", other)} {
			if got.status != http.StatusNotFound || got.body != unknown.body {
				t.Errorf("%s: got %d %s", path, got.status, got.body)
			}
		}
	}
	ada.get("/settings/account/export").has(t, http.StatusNotFound)
	w.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
	ada.get("/settings/password").has(t, http.StatusNotFound)
	ada.get("/settings/keys").has(t, http.StatusServiceUnavailable, "The gate does not answer", "Sign out")
	w.gate.Fail(nil)
	if !phone.signedIn() || !ada.signedIn() {
		t.Error("a session has ended")
	}
	// A change of the password ends all visits.
	phone.post("/settings/password", "current", password, "password", other)
	if ada.signedIn() || !phone.signedIn() {
		t.Error("the visit outlives a change of the password")
	}
}

// Threat: a link is used twice, at once or later, also after the sign-out.
func TestPortalLinkWorksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.external("shop-7")
	link := w.portalPath("shop-7")
	if got := w.person().do(http.MethodHead, link, nil); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") != "GET, POST" {
		t.Errorf("HEAD: got %d %v", got.status, got.header)
	}
	var opened atomic.Int32
	var visits sync.WaitGroup
	for range 20 {
		visits.Go(func() {
			switch got := w.person().get(link); got.status {
			case http.StatusSeeOther:
				opened.Add(1)
			case http.StatusGone:
			default:
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
	visits.Wait()
	if opened.Load() != 1 {
		t.Errorf("the link opened %d sessions, want 1", opened.Load())
	}
	next := w.portalPath("shop-7")
	shop := w.person().enter(next)
	shop.post("/logout")
	shop.get(next).has(t, http.StatusGone)
	if err := w.store.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	shop.get(next).has(t, http.StatusGone)
	if shop.signedIn() {
		t.Error("the link was replayed after the sign-out")
	}
}

// Threat: a link that the gate did not make for this site, or that has expired.
// All have the same page, and the log says why without the link.
func TestPortalRefusesLinks(t *testing.T) {
	t.Parallel()
	w, log := newLoggedWorld(t)
	w.external("shop-7")
	sign := func(secret, host string) string {
		key, err := assertion.NewKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := assertion.NewSigner(key)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := signer.Portal("http://"+host+":8080/portal", "shop-7", time.Now())
		return "/portal?link=" + text
	}
	spent, valid := w.portalPath("shop-7"), w.portalPath("shop-7")
	w.person().enter(spent)
	unknown := w.person().get("/portal")
	unknown.has(t, http.StatusGone, "This link does not work", "Go to the front page")
	for name, link := range map[string]string{
		"no token": "/portal?link=x", "empty": "/portal?link=", "spent": spent,
		"forged":          sign(strings.Repeat("another secret ", 3), "localhost"),
		"another host":    sign(gatetest.Secret, "rates.example"),
		"a changed end":   valid[:len(valid)-4] + "AAAA",
		"of a call":       "/portal?link=" + gatetest.Assert(t, "localhost", assertion.Call),
		"of a login":      "/portal?link=" + gatetest.Assert(t, "localhost", assertion.Login),
		"unknown account": strings.Replace(valid, "/portal?link=", "/portal?Link=", 1),
	} {
		person := w.person()
		if got := person.get(link); got.status != http.StatusGone || got.body != unknown.body || got.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: got %d %v %s", name, got.status, got.header, got.body)
		}
		if person.signedIn() {
			t.Errorf("%s: signed in", name)
		}
	}
	late := w.portalPath("shop-7")
	w.clock.advance(3 * time.Minute)
	w.person().enter(valid)
	w.clock.advance(2 * time.Minute)
	w.person().get(late).has(t, http.StatusGone)
	text := log.text()
	if !strings.Contains(text, "refused a portal link") || !strings.Contains(text, "it is ") {
		t.Errorf("the log has no reason: %s", text)
	}
	for _, link := range []string{spent, valid, late} {
		if strings.Contains(text, strings.Split(link, ".")[2]) {
			t.Errorf("the log has a link: %s", text)
		}
	}
}

// Threat: a visit goes on after the account was disabled or deleted, or comes
// back with it.
func TestPortalEndsWithTheAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.external("shop-7")
	shop := w.person().enter(w.portalPath("shop-7"))
	stolen, unused := shop.cookie(), w.portalPath("shop-7")
	set := func(change api.AccountChange) {
		if _, err := w.gate.Client.PutAccount(t.Context(), "shop-7", change); err != nil {
			t.Fatal(err)
		}
	}
	set(api.AccountChange{Disabled: new(true)})
	if got := shop.get("/settings/keys"); got.status != http.StatusSeeOther || !strings.Contains(got.location, "ended=1") {
		t.Errorf("disabled: got %d to %q", got.status, got.location)
	}
	if shop.enter(unused).signedIn() {
		t.Error("a link opens a disabled account")
	}
	set(api.AccountChange{Disabled: new(false)})
	if w.thief(stolen) {
		t.Error("the session is back")
	}
	shop.enter(w.portalPath("shop-7"))
	if err := w.gate.Client.DeleteAccount(t.Context(), "shop-7"); err != nil {
		t.Fatal(err)
	}
	if shop.signedIn() {
		t.Error("a deleted account is signed in")
	}
	if _, err := w.gate.Client.Account(t.Context(), "shop-7"); err == nil {
		t.Error("the visit made the account again")
	}
	// With a row here, too.
	a := w.add("ada@example.com", "starter")
	ada := w.person().enter(w.portalPath(a.ID))
	if err := w.accounts.Delete(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	left, err := w.store.Sessions(t.Context(), a.ID)
	if err != nil || len(left) != 0 || ada.signedIn() {
		t.Errorf("%d sessions of a deleted account are left, %v", len(left), err)
	}
}

// A visit lasts 12 hours, however often the person comes back.
func TestPortalExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.external("shop-7")
	shop := w.person().enter(w.portalPath("shop-7"))
	for range 11 {
		w.clock.advance(time.Hour)
		shop.get("/usage").has(t, http.StatusOK)
	}
	w.clock.advance(time.Hour)
	if shop.signedIn() {
		t.Error("the visit outlives 12 hours")
	}
}

// Threat: a visitor opens keys of another account by their ids, or stays another
// person.
func TestPortalOfOneAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := w.external("shop-8")
	w.external("shop-7")
	a := w.add("ada@example.com", "starter")
	shop := w.person().signIn("ada@example.com")
	before := shop.cookie()
	link := w.portalPath("shop-7")
	shop.post("/portal", "link", shop.get(link).asked(t, "another account", link))
	if w.thief(before) {
		t.Error("the session before is not replaced")
	}
	for _, path := range []string{"", "/edit", "/rotate", "/revoke"} {
		shop.get("/settings/keys/"+foreign+path).has(t, http.StatusNotFound)
		if path != "" {
			shop.post("/settings/keys/"+foreign+path, "overlap", "0", "name", "x", "scope", "all").has(t, http.StatusNotFound)
		}
	}
	if keys := w.keys("shop-8"); len(keys) != 1 || keys[0] != "key of shop-8" {
		t.Errorf("the other account has the keys %q", keys)
	}
	if got := shop.get("/settings/keys"); strings.Contains(got.body, "ada@example.com") || strings.Contains(got.body, a.ID) {
		t.Errorf("the page has the person before: %s", got.body)
	}
}

// Without the gate a link shows the usual error and still works afterwards.
func TestPortalWithoutTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.external("shop-7")
	link := w.portalPath("shop-7")
	w.gate.Fail(&gatetest.Fault{Hits: func(*http.Request) bool { return true }})
	got := w.person().get(link)
	got.has(t, http.StatusServiceUnavailable, "The gate does not answer")
	if got.header.Get("Set-Cookie") != "" {
		t.Error("a session is open")
	}
	w.gate.Fail(nil)
	w.person().get(link).has(t, http.StatusServiceUnavailable) // it was asked just now
	w.clock.advance(2 * time.Second)
	w.person().enter(link)
	// A session can be of an account without a row only by a link.
	s := account.Session{ID: "x", AccountID: "shop-7", CreatedAt: time.Now(), SeenAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
	if err := w.store.AddSession(t.Context(), s); err == nil {
		t.Error("a session of no row is stored")
	}
}

// Threat: a link of the gate opens the operator's pages.
func TestPortalOpensNoOperatorPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, olga := w.operator()
	made, err := w.gate.Client.Portal(t.Context(), olga.ID)
	if err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(made.URL)
	if err != nil {
		t.Fatal(err)
	}
	visitor := w.person()
	if a := visitor.get(link.RequestURI()); a.status != http.StatusSeeOther {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	visitor.get("/settings/keys").has(t, http.StatusOK)
	visitor.get("/operator").has(t, http.StatusNotFound)
	visitor.post("/operator/try").has(t, http.StatusNotFound)
}
