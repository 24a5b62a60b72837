package browsertest_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// linker makes portal links of a stack, and shows them on a page of another
// site.
type linker struct {
	*stack.Stack
	t    *testing.T
	gate *client.Client
	page string // what the other site shows
	site string
}

func newLinker(t *testing.T) *linker {
	l := &linker{Stack: stack.Start(t, stack.Shipped(t)), t: t}
	for _, id := range []string{"shop-7", "evil-1"} {
		l.Tollgate("account", "set", id, "--plan", "starter", "--label", "Label of "+id)
	}
	var err error
	if l.gate, err = client.New(l.Control(), stack.Secret); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>other</title><body>"+l.page)
	}))
	t.Cleanup(other.Close)
	l.site = strings.Replace(other.URL, "127.0.0.1", "localhost", 1)
	return l
}

func (l *linker) link(account string) string {
	l.t.Helper()
	made, err := l.gate.Portal(l.t.Context(), account)
	if err != nil {
		l.t.Fatal(err)
	}
	return made.URL
}

// show opens the page of the other site.
func (l *linker) show(p *browsertest.Page, format, link string) {
	l.t.Helper()
	l.page = strings.ReplaceAll(format, "LINK", html.EscapeString(link))
	p.Go(l.site)
}

var portalLine = regexp.MustCompile(`"uri":"/portal"`)

// awaitVisits waits until the access log has a number of requests for /portal.
func (l *linker) awaitVisits(n int) {
	l.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		log, err := os.ReadFile(l.AccessLog())
		if got := len(portalLine.FindAll(log, -1)); err == nil && got >= n {
			return
		} else if time.Now().After(deadline) {
			l.t.Fatalf("%d requests for /portal, %v; want %d", got, err, n)
		}
	}
}

// Threat: a page of another site spends a link without a visit, or signs a person
// in. A real browser sends what the pages judge by.
func TestPortalLinkOnOtherPages(t *testing.T) {
	t.Parallel()
	l := newLinker(t)
	browser := browsertest.Start(t)
	visits := 0
	for name, page := range map[string]string{
		"image":     `<img src="LINK">`,
		"script":    `<script src="LINK"></script>`,
		"style":     `<link rel="stylesheet" href="LINK">`,
		"frame":     `<iframe src="LINK"></iframe>`,
		"object":    `<object data="LINK"></object>`,
		"prefetch":  `<link rel="prefetch" href="LINK">`,
		"speculate": `<script type="speculationrules">{"prefetch":[{"source":"list","urls":["LINK"],"eagerness":"immediate"}]}</script>`,
		"prerender": `<script type="speculationrules">{"prerender":[{"source":"list","urls":["LINK"],"eagerness":"immediate"}]}</script>`,
		"fetch":     `<script>fetch("LINK", {mode: "no-cors", credentials: "include"})</script>`,
	} {
		p, link := browser.Person(), l.link("evil-1")
		cross := l.site
		if name == "prerender" { // of the same site only
			l.site = strings.Replace(l.site, "localhost", "127.0.0.1", 1)
		}
		l.show(p, page, link)
		l.site = cross
		visits++
		l.awaitVisits(visits)
		if p.Cookie("tollgate") != nil {
			t.Errorf("%s: signed in", name)
		}
		if status := p.Go(link); status != http.StatusOK || p.Path() == "/portal" && p.Press("main form .primary") != http.StatusOK || p.Path() != "/settings/keys" {
			t.Errorf("%s spent the link: got %d at %s: %s", name, status, p.Path(), p.Text("main"))
		}
		log, _ := os.ReadFile(l.AccessLog())
		visits = len(portalLine.FindAll(log, -1))
	}
}

// A person who is signed in sees whose account a link opens, and presses a button,
// with and without JavaScript. Another site cannot press it.
func TestPortalLinkAsks(t *testing.T) {
	t.Parallel()
	l := newLinker(t)
	addAccount(l.Stack, "starter")
	browser := browsertest.Start(t)
	for name, options := range map[string][]browsertest.Option{"with JavaScript": nil, "without": {browsertest.NoScript}, "dark": {browsertest.Dark}} {
		p := browser.Person(options...)
		signIn(t, l.Stack, p)
		link := l.link("evil-1")
		_, token, _ := strings.Cut(link, "link=")
		l.show(p, `<form method="post" action="`+l.Address+`/portal"><input name="link" value="LINK"><button>Win</button></form>`, token)
		if status := p.Press("button"); status != http.StatusForbidden {
			t.Errorf("%s: a form of another site got %d", name, status)
		}
		l.show(p, `<a href="LINK">Win</a>`, link)
		if status := p.Press("a"); status != http.StatusOK || p.Path() != "/portal" || !p.Shows(email) || !p.Shows("evil-1") {
			t.Fatalf("%s: got %d at %s: %s", name, status, p.Path(), p.Text("body"))
		}
		checkPage(t, p, name != "without")
		p.Go(l.Address + "/usage")
		if !p.Shows(email) {
			t.Errorf("%s: signed out before the button", name)
		}
		p.Go(link)
		if status := p.Press("main form .primary"); status != http.StatusOK || p.Path() != "/settings/keys" || !p.Shows("Label of evil-1") {
			t.Errorf("%s: the button got %d at %s: %s", name, status, p.Path(), p.Text("body"))
		}
		// The same account needs no question.
		if p.Go(l.link("evil-1")); p.Path() != "/settings/keys" {
			t.Errorf("%s: the same account got %s", name, p.Path())
		}
		if log, err := os.ReadFile(l.AccessLog()); err != nil || strings.Contains(string(log)+l.Log(), token) {
			t.Errorf("%s: a log has the link, or %v", name, err)
		}
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
