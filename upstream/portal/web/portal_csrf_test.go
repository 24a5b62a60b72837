package web_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var hiddenLink = regexp.MustCompile(`<form method="post" action="/portal">\s*<input type="hidden" name="link" value="([^"]+)">`)

// asked checks that a page asks before it spends the link, and returns the link
// in its form.
func (a answer) asked(t *testing.T, name, link string) string {
	t.Helper()
	found := hiddenLink.FindStringSubmatch(a.body)
	if a.status != http.StatusOK || found == nil || "/portal?link="+found[1] != link || a.header.Get("Set-Cookie") != "" {
		t.Fatalf("%s: got %d %v %s", name, a.status, a.header, a.body)
	}
	if a.header.Get("Referrer-Policy") != "strict-origin" || a.header.Get("Cache-Control") != "no-store" || strings.Count(a.body, found[1]) != 1 {
		t.Errorf("%s: the link can leak: %v %s", name, a.header, a.body)
	}
	return found[1]
}

// Threat: another site sends a person to a link of the attacker's account. The
// person does not see that it is another account, and fills it in.
func TestPortalDoesNotReplaceASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.external("shop-7")
	w.external("evil-1")
	ada := w.add("ada@example.com", "starter")
	visitor := w.person().enter(w.portalPath("shop-7"))
	for name, c := range map[string]struct {
		person *person
		as     string
	}{
		"a session with a password": {w.person().signIn("ada@example.com"), "ada@example.com"},
		"a visit by another link":   {visitor, "Shop &lt;b&gt;7&lt;/b&gt;"},
	} {
		p, link := c.person, w.portalPath("evil-1")
		page := p.do(http.MethodGet, link, nil, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site")
		text := page.asked(t, name, link)
		page.has(t, http.StatusOK, "<strong>evil-1</strong>", "<strong>"+c.as+"</strong>")
		p.get(link).asked(t, name+", old browser", link)
		form := url.Values{"link": {text}}
		for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
			p.do(http.MethodPost, "/portal", form, header...).has(t, http.StatusForbidden, "This form came from another site")
		}
		p.post(link).has(t, http.StatusGone) // the query must not fill in the form
		p.get("/usage").has(t, http.StatusOK, c.as)
		if got := p.do(http.MethodPost, "/portal", form, "Sec-Fetch-Site", "same-origin"); got.status != http.StatusSeeOther || got.location != "/settings/keys" {
			t.Errorf("%s: the button got %d to %q: %s", name, got.status, got.location, got.body)
		}
		p.get("/settings/keys").has(t, http.StatusOK, "key of evil-1")
		p.do(http.MethodPost, "/portal", form).has(t, http.StatusGone)
	}
	// The same account and a session that has ended need no question.
	w.person().signIn("ada@example.com").enter(w.portalPath(ada.ID)).enter(w.portalPath(ada.ID))
	ended := w.person().signIn("ada@example.com")
	w.person().signIn("ada@example.com").post("/settings/password", "current", password, "password", other)
	ended.enter(w.portalPath("shop-7"))
}

// Threat: a page of another site, a preview or a prefetch spends a link, so that
// it opens nothing for its person, or an image signs a person in.
func TestPortalIsSpentByVisitsOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.add("ada@example.com", "starter")
	for name, header := range map[string][]string{
		"image":       {"Sec-Fetch-Dest", "image", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "cross-site"},
		"script":      {"Sec-Fetch-Dest", "script", "Sec-Fetch-Mode", "no-cors"},
		"frame":       {"Sec-Fetch-Dest", "iframe", "Sec-Fetch-Mode", "navigate"},
		"object":      {"Sec-Fetch-Dest", "object", "Sec-Fetch-Mode", "navigate"},
		"fetch":       {"Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "cors"},
		"no document": {"Sec-Fetch-Mode", "no-cors"},
		"prefetch":    {"Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "no-cors", "Sec-Purpose", "prefetch"},
		"prerender":   {"Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Purpose", "prefetch;prerender"},
		"old Chrome":  {"Purpose", "prefetch"},
		"old Firefox": {"X-Moz", "prefetch"},
	} {
		for _, p := range []*person{w.person(), w.person().signIn("ada@example.com")} {
			before, link := p.cookie(), w.portalPath(ada.ID)
			p.do(http.MethodGet, link, nil, header...).asked(t, name, link)
			if p.cookie() != before {
				t.Errorf("%s: the session has changed", name)
			}
			p.enter(link)
		}
	}
	p, link := w.person(), w.portalPath(ada.ID)
	got := p.do(http.MethodGet, link, nil, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-User", "?1")
	if got.status != http.StatusSeeOther || !p.signedIn() {
		t.Errorf("a navigation of a new browser: got %d %s", got.status, got.body)
	}
}
