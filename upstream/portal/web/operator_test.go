package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// operator returns a person who is signed in and may open the operator's pages.
func (w *world) operator() (*person, account.Account) {
	w.t.Helper()
	a := w.add("olga@example.com", "free")
	if err := w.accounts.SetOperator(context.Background(), a.ID, true); err != nil {
		w.t.Fatal(err)
	}
	return w.person().signIn("olga@example.com"), a
}

// last returns the newest entries of the audit log of an account, newest
// first.
func (w *world) last(id string, n int) []api.AuditEntry {
	w.t.Helper()
	page, err := w.gate.Client.Audit(context.Background(), api.AuditQuery{Account: id, Order: "desc", Limit: n})
	if err != nil || len(page.Audit) < n {
		w.t.Fatalf("got %d entries, want %d: %v", len(page.Audit), n, err)
	}
	return page.Audit
}

// call counts a call on the gate's day, and records it.
func (w *world) call(id, endpoint string, cost int64) {
	w.t.Helper()
	g := w.gate.Control
	call := store.Call{Account: id, Endpoint: endpoint, Day: g.Policy().Calendar.At(g.Now()).Day, At: g.Now(), Cost: cost}
	if ok, err := g.Opened().Take(context.Background(), call, nil, nil); !ok || err != nil {
		w.t.Fatalf("taking a call: %v, %v", ok, err)
	}
	g.Opened().Record(store.Record{Account: id, At: g.Now(), Endpoint: endpoint, Method: "GET", Path: "/api/" + endpoint, Status: 200})
}

func accountPage(id string) string { return "/operator/accounts/" + id }

// Each action changes the account once, and leaves one entry with its reason and
// the operator.
func TestOperatorActions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.NoRates = true })
	ada := w.add("ada@example.com", "starter")
	key := w.person().signIn("ada@example.com").makeKey("shop backend")
	p, olga := w.operator()
	at := accountPage(ada.ID)
	first := p.get(at)
	first.has(t, http.StatusOK, "ada@example.com", "shop backend", "starter", ">Operator</a>", "key.create")
	if strings.Contains(first.body, "Calls given back in") || strings.Contains(first.body, at+"/enable") || strings.Contains(first.body, ` on <a href="`+at) || strings.Contains(first.body, `<span class="hint">account</span>`) {
		t.Errorf("has credits, a button to enable, or the account in its entries: %s", first.body)
	}
	for _, step := range []struct {
		path         string
		fields       []string
		action, done string
		target       string
		shows        string // on the page of the account afterwards
	}{
		{"/plan", []string{"plan", "business"}, api.AccountSet, "plan", "", "business <a"},
		{"/limit", []string{"endpoint", "convert", "calls", "500,000", "period", "day", "until", "2999-12-31"}, "", "", "", "within 100 years"},
		{"/limit", []string{"endpoint", "convert", "calls", "500,000", "period", "day", "until", "2099-12-31"}, api.LimitSet, "limit", "convert/day", "500,000 a day until"},
		{"/clear?target=convert/day", []string{"target", "convert/day"}, api.LimitClear, "clear", "convert/day", "100,000"},
		{"/disable", nil, api.AccountSet, "disable", "", "Disabled"},
		{"/enable", nil, api.AccountSet, "enable", "", "Active"},
		{"/revoke?target=" + key, []string{"target", key}, api.KeyRevoke, "revoke", key, "No keys."},
	} {
		p.get(at+step.path).has(t, http.StatusOK, `name="reason"`, ">Cancel</a>")
		path, _, _ := strings.Cut(step.path, "?")
		reason := "ticket 7 " + path
		before := w.last(ada.ID, 1)[0].ID
		a := p.post(at+path, append(step.fields, "reason", " "+reason+" ")...)
		if step.action == "" {
			a.has(t, http.StatusUnprocessableEntity, step.shows, reason)
			continue
		}
		if a.status != http.StatusSeeOther || a.location != at+"?done="+step.done {
			t.Fatalf("%s: got %d %q %s", step.path, a.status, a.location, a.body)
		}
		entries := w.last(ada.ID, 2)
		e := entries[0]
		if e.Action != step.action || e.Target != step.target || e.Reason != reason || e.Actor != (api.Actor{Kind: api.ActorPerson, ID: olga.ID, Label: string(olga.Email)}) || entries[1].ID != before {
			t.Errorf("%s: got the entries %+v", step.path, entries)
		}
		now := p.get(a.location)
		now.has(t, http.StatusOK, `role="status"`, step.shows, reason)
		if oldest := strings.Index(now.body, "ticket 7 /plan"); strings.Index(now.body, reason) > oldest {
			t.Errorf("%s: the audit log is not newest first", step.path)
		}
	}
}

// The page of an account with as many keys as it can have is small. It leads to
// all keys.
func TestOperatorManyKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	for i := range 100 {
		w.gate.Control.Advance(time.Second) // the newest are known by their times
		if _, err := w.gate.Client.CreateKey(t.Context(), ada.ID, api.KeyRequest{Name: fmt.Sprint("key ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 30 {
		w.call(ada.ID, "convert", 1)
	}
	p, _ := w.operator()
	page := p.get(accountPage(ada.ID))
	page.has(t, http.StatusOK, "key 99<", "Show 60 older keys")
	if strings.Contains(page.body, "key 59<") || len(page.body) > 50<<10 {
		t.Errorf("%d bytes, or shows an older key", len(page.body))
	}
	p.get(accountPage(ada.ID)+"?keys=all").has(t, http.StatusOK, "key 99<", "key 0<")
}

// A credit is made once, also if its form is sent twice.
func TestOperatorCredit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	w.call(ada.ID, "convert", 30)
	p, _ := w.operator()
	at := accountPage(ada.ID)
	form := p.get(at + "/credit")
	id := regexp.MustCompile(`name="id" value="(\w+)"`).FindStringSubmatch(form.body)[1]
	day := regexp.MustCompile(`type="date" max="([-\d]+)"`).FindStringSubmatch(form.body)[1]
	for range 2 {
		a := p.post(at+"/credit", "endpoint", "convert", "calls", "20", "day", day, "id", id, "reason", "their outage")
		if a.status != http.StatusSeeOther {
			t.Fatalf("got %d %s", a.status, a.body)
		}
		p.get(a.location).has(t, http.StatusOK, `role="status"`, "Given back: 20 of 20 asked.")
	}
	p.get(at).has(t, http.StatusOK, "<strong>10</strong> of 1,000 used", ", convert</span><span>20</span>")
	if e := w.last(ada.ID, 1)[0]; e.Action != api.UsageCredit || e.Reason != "their outage" {
		t.Errorf("got %+v", e)
	}
	a := p.post(at+"/credit", "endpoint", "convert", "calls", "9,999", "day", day, "id", "less", "reason", "r")
	p.get(a.location).has(t, http.StatusOK, "Given back: 10 of 9,999 asked.")
	p.post(at+"/credit", "endpoint", "convert", "calls", "1", "day", day, "id", "none", "reason", "r").
		has(t, http.StatusUnprocessableEntity, "Nothing was given back. All 30 calls of convert on "+day+" were given back before.")
	p.post(at+"/credit", "endpoint", "convert", "calls", "many", "day", day, "id", "x", "reason", "r").has(t, http.StatusUnprocessableEntity, "whole number")
	p.post(at+"/credit", "endpoint", "nothing", "calls", "1", "day", day, "id", "x", "reason", "r").has(t, http.StatusUnprocessableEntity, `role="alert"`)
}

// A reset link and a sign-in link are shown once and work once. They are in the
// audit log, without the link.
func TestOperatorLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	p, olga := w.operator()
	at := accountPage(ada.ID)
	links := regexp.MustCompile(`<code id="token">([^<]+)</code>`)

	made := p.post(at+"/reset", "reason", "forgot it")
	entry := w.last(ada.ID, 1)[0]
	made.has(t, http.StatusOK, "shown only once")
	link := links.FindStringSubmatch(made.body)[1]
	reset, err := url.Parse(link)
	if err != nil || reset.Host != "localhost:8080" {
		t.Fatalf("got the link %q", link)
	}
	if a := w.person().post(reset.Path, "password", other); a.status != http.StatusSeeOther {
		t.Errorf("resetting: got %d %s", a.status, a.body)
	}
	if e := entry; e.Action != api.ResetCreate || e.Reason != "forgot it" || e.Actor.ID != olga.ID {
		t.Errorf("got %+v", e)
	}

	made = p.post(at+"/link", "reason", "to look at it together")
	made.has(t, http.StatusOK, "shown only once")
	if link := links.FindStringSubmatch(made.body)[1]; !strings.Contains(link, "/portal?link=") {
		t.Errorf("got the link %q", link)
	}
	e := w.last(ada.ID, 1)[0]
	if e.Action != api.PortalCreate || e.Reason != "to look at it together" || e.Before != nil && string(e.Before) != "null" || string(e.After) != "null" {
		t.Errorf("got %+v", e)
	}

	// An account of another application has no password here.
	if _, err := w.gate.Client.PutAccount(t.Context(), "shop-7", api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	if body := p.get(accountPage("shop-7")).body; strings.Contains(body, "/reset") {
		t.Error("offers a reset link without an e-mail")
	}
	p.get(accountPage("shop-7")+"/reset").has(t, http.StatusNotFound)
	p.post(accountPage("shop-7")+"/reset", "reason", "r").has(t, http.StatusNotFound)

	// The gate refuses a link of a disabled account. This is not the operator's own.
	if a := p.post(at+"/disable", "reason", "unpaid"); a.status != http.StatusSeeOther {
		t.Fatal(a.body)
	}
	p.post(at+"/link", "reason", "r").has(t, http.StatusUnprocessableEntity, "disabled")
	if !p.signedIn() {
		t.Error("the operator is signed out")
	}
}

// Threat: a person who is no operator learns that the pages exist, or uses them.
// The answer is that to an unknown address, for each method, also after the
// permission is taken away.
func TestOperatorsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	person := w.person().signIn("ada@example.com")
	p, olga := w.operator()
	if err := w.accounts.SetOperator(t.Context(), olga.ID, false); err != nil {
		t.Fatal(err)
	}
	before := w.last(ada.ID, 1)[0].ID
	for _, who := range []caller{{"person", person}, {"former operator", p}} {
		unknown := who.get("/operators")
		for _, path := range []string{"/operator", "/operator/", "/operator/accounts", accountPage(ada.ID), accountPage(ada.ID) + "/disable",
			"/operator/audit", "/operator/try", "/operator/unknown", "/%6fperator", "/%6fperator/accounts", "/operator%2Faccounts"} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
				var form url.Values
				if method == http.MethodPost {
					form = url.Values{"reason": {strings.Repeat("x", 20<<10)}} // too long to be read
				}
				a := who.do(method, path, form)
				if a.status != http.StatusNotFound || a.body != unknown.body || a.header.Get("Allow") != "" {
					t.Errorf("%s: %s %s: got %d %v %s", who.name, method, path, a.status, a.header, a.body)
				}
			}
		}
		if strings.Contains(who.get("/settings/keys").body, ">Operator</a>") {
			t.Errorf("%s: the menu has Operator", who.name)
		}
	}
	if w.last(ada.ID, 1)[0].ID != before {
		t.Error("something was changed")
	}
	stranger := w.person().get(accountPage(ada.ID))
	if want := "/login?next=" + url.QueryEscape(accountPage(ada.ID)); stranger.status != http.StatusSeeOther || stranger.location != want {
		t.Errorf("signed out: got %d %q, want %q", stranger.status, stranger.location, want)
	}
}

type caller struct {
	name string
	*person
}

// Threat: a browser that an operator left. After an hour, the pages need another
// sign-in, which leads back to the page.
func TestOperatorSignsInAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const id = "a.b@c-d_e" // all signs of an id
	if _, err := w.gate.Client.PutAccount(t.Context(), id, api.AccountChange{}); err != nil {
		t.Fatal(err)
	}
	p, _ := w.operator()
	at := accountPage(id) + "/disable"
	w.clock.advance(time.Hour - time.Minute)
	p.get(at).has(t, http.StatusOK)
	w.clock.advance(time.Minute)
	if !p.signedIn() {
		t.Error("other pages are closed too")
	}
	before := w.last(id, 1)[0].ID
	a := p.post(at, "reason", "too late")
	if a.status != http.StatusSeeOther || !strings.HasPrefix(a.location, "/login?") || w.last(id, 1)[0].ID != before {
		t.Fatalf("got %d %q", a.status, a.location)
	}
	p.get(a.location).has(t, http.StatusOK, "need a sign-in of the last hour", `value="`+at+`"`)
	if b := p.post(a.location, "email", "olga@example.com", "password", password, "next", at); b.location != at {
		t.Errorf("after the sign-in: got %d %q", b.status, b.location)
	}
	p.get(at).has(t, http.StatusOK)
}

// Threat: forms of other sites, without a reason, and for what belongs to
// another account.
func TestOperatorActionsAreGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	bob := w.add("bob@example.com", "starter")
	key := w.person().signIn("bob@example.com").makeKey("bob's")
	if _, err := w.gate.Client.SetLimit(t.Context(), bob.ID, "convert", "day", api.OverrideRequest{Limit: new(int64(5))}); err != nil {
		t.Fatal(err)
	}
	p, _ := w.operator()
	at := accountPage(ada.ID)
	before := w.last(ada.ID, 1)[0].ID
	for _, reason := range []string{"", "  ", strings.Repeat("ü", 201), "two\nlines", "a\u202etxt", "\xff"} {
		for _, action := range []string{"disable", "plan", "reset", "link"} {
			p.post(at+"/"+action, "reason", reason, "plan", "business").has(t, http.StatusUnprocessableEntity, `role="alert"`)
		}
	}
	if a := p.do(http.MethodPost, at+"/disable", url.Values{"reason": {"r"}}, "Origin", "https://evil.example"); a.status != http.StatusForbidden {
		t.Errorf("from another site: got %d", a.status)
	}
	if a := p.do(http.MethodPost, at+"/disable?reason=r", url.Values{}); a.status != http.StatusUnprocessableEntity {
		t.Errorf("a link fills in the form: got %d", a.status)
	}
	for path, target := range map[string]string{"/revoke": key, "/clear": "convert/day"} {
		if a := p.post(at+path, "target", target, "reason", "r"); a.location != at+"?done=unchanged" {
			t.Errorf("%s of another account: got %d %q", path, a.status, a.location)
		}
		p.get(accountPage(bob.ID)+path+"?target="+target).has(t, http.StatusOK)
	}
	for _, path := range []string{at + "/delete", at + "/", at + "/plan/x", "/operator/accounts/unknown"} {
		p.get(path).has(t, http.StatusNotFound)
	}
	for _, id := range []string{"..%2Fplans", "%3Cb%3E"} {
		p.get(accountPage(id)).has(t, http.StatusBadRequest)
	}
	if w.last(ada.ID, 1)[0].ID != before || len(w.keys(bob.ID)) != 1 {
		t.Error("something was changed")
	}
}

// Threat: labels, names of keys and reasons with HTML, quotes and right-to-left
// letters.
func TestOperatorPagesEscape(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hostile := `"><script>alert('x')</script> שלום ` + strings.Repeat("W", 150)
	if _, err := w.gate.Client.PutAccount(t.Context(), "shop-7", api.AccountChange{Plan: new("starter"), Label: &hostile}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.gate.Client.CreateKey(client.WithActor(t.Context(), `"><script>`), "shop-7", api.KeyRequest{Name: `"><script>k</script>`}); err != nil {
		t.Fatal(err)
	}
	g := w.gate.Control
	for range 30 {
		w.call("shop-7", "convert", 1)
	}
	g.Opened().Record(store.Record{Account: "shop-7", At: g.Now(), Endpoint: "convert", Method: "GET", Path: "/api/<script>alert('path')", Status: 200})
	p, _ := w.operator()
	at := accountPage("shop-7")
	page := p.get(at)
	if page.has(t, http.StatusOK, "/api/&lt;script&gt;alert"); strings.Count(page.body, "<code>GET /api/") != 20 {
		t.Errorf("got %d recent calls, want 20", strings.Count(page.body, "<code>GET /api/"))
	}
	if a := p.post(at+"/limit", "endpoint", "convert", "calls", "7", "period", "month", "until", "2099-12-31", "reason", hostile, "sure", "convert/month/7 a month/0/convert has no limit a month now."); a.status != http.StatusSeeOther {
		t.Fatal(a.body)
	}
	for _, path := range []string{at, at + "/plan", at + "/clear?target=convert/month"} {
		a := p.get(path)
		a.has(t, http.StatusOK, "&lt;script&gt;")
		if strings.Contains(a.body, "<script>") || strings.Contains(a.body, "alert('x')") {
			t.Errorf("%s: not escaped: %s", path, a.body)
		}
	}
}

// Threat: a form that fails leaves a customer's e-mail, a reason or a date in the
// browser.
func TestOperatorFormsLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	p, _ := w.operator()
	w.gate.Fail(&gatetest.Fault{Hits: func(r *http.Request) bool {
		return r.Method != http.MethodGet || strings.Contains(r.URL.Path, "lookup")
	}})
	for _, a := range []answer{
		p.post("/operator/try", "target", "/api/x", "account", "Ada"),
		p.post(accountPage(ada.ID)+"/limit", "endpoint", "convert", "calls", "5000", "period", "day", "until", "2099-12-31", "reason", "ticket 7"),
	} {
		if a.status != http.StatusServiceUnavailable || a.header.Get("Set-Cookie") != "" {
			t.Errorf("got %d %v", a.status, a.header)
		}
	}
}
