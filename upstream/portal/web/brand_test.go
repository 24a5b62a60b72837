package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

const (
	image = `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`
	name  = `Weather & <b>More</b>`
)

// ofCurrencies are words that only pages of the currency API have.
var ofCurrencies = regexp.MustCompile(`(?i)currenc|exchange|\bEUR\b|\bECB\b|"/docs"`)

// Pages in front of another API have its name, its logo and a way to the
// operator, and no word about currencies.
func TestBrand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) {
		c.NoRates, c.SignUp = true, "free"
		c.Brand = web.Brand{
			Name: name, Logo: web.Logo{MediaType: "image/svg+xml", Content: []byte(image)},
			Contact: web.Contact{URL: "https://weather.example/help?a=b&c", Text: "weather.example/help"},
		}
	})
	w.add("ada@example.com", "free")
	w.add("bob@example.com", "starter")
	const contact = `<a href="https://weather.example/help?a=b&amp;c">`
	const operator = contact + "the operator of this site</a>"
	stranger, ada, bob := w.person(), w.person().signIn("ada@example.com"), w.person().signIn("bob@example.com")
	id := bob.makeKey("ci")
	for _, c := range []struct {
		who    *person
		target string
		status int
		want   []string
	}{
		{stranger, "/", 200, []string{"Your plan has limits.", "<title>Weather &amp; &lt;b&gt;More&lt;/b&gt;</title>", "<h1>Weather &amp; &lt;b&gt;More", `href="/signup"`, "(UTC)"}},
		{stranger, "/login", 200, []string{"<title>Sign in · Weather &amp; &lt;b&gt;More&lt;/b&gt;</title>"}},
		{stranger, "/signup", 200, nil},
		{stranger, "/docs", 404, []string{"Need help? Contact " + operator}},
		{ada, "/settings/keys", 200, []string{contact + "Contact us</a> to change your plan"}},
		{ada, "/settings/keys/new", 200, []string{contact + "Contact us</a> to change your plan"}},
		{ada, "/settings/plan", 200, []string{`<a class="button primary" href="https://weather.example/help?a=b&amp;c">Contact us to change your plan</a>`}},
		{ada, "/usage", 200, []string{contact + "Contact us</a> to change your plan"}},
		{bob, "/settings/keys", 200, nil},
		{bob, "/settings/keys/new", 200, nil},
		{bob, "/settings/keys/" + id, 200, nil},
		{bob, "/settings/keys/" + id + "/edit", 200, nil},
		{bob, "/settings/keys/" + id + "/rotate", 200, nil},
		{bob, "/settings/keys/" + id + "/revoke", 200, nil},
		{bob, "/settings/password", 200, nil},
		{bob, "/settings/sessions", 200, nil},
		{bob, "/usage", 200, nil},
	} {
		got := c.who.get(c.target)
		got.has(t, c.status, append(c.want, "<span>Weather &amp; &lt;b&gt;More&lt;/b&gt;</span></a>", "/logo.svg\" alt=\"\"",
			"Questions? "+contact+"weather.example/help</a>")...)
		if found := ofCurrencies.FindString(got.body); found != "" {
			t.Errorf("%s says %q: %s", c.target, found, got.body)
		}
	}
}

// Threat: a logo is SVG with a script, and a person opens it as a page.
func TestLogo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *web.Config) { c.Brand.Logo = web.Logo{MediaType: "image/svg+xml", Content: []byte(image)} })
	p := w.person()
	front := p.get("/")
	front.has(t, http.StatusOK, "Currency API", `href="/docs"`, "Source: ECB statistics.")
	paths := regexp.MustCompile(`"(/static/[0-9a-f]{12}/logo\.svg)"`).FindAllStringSubmatch(front.body, -1)
	if len(paths) != 2 || paths[0][1] != paths[1][1] {
		t.Fatalf("the logo is at %v, want it as icon and beside the name: %s", paths, front.body)
	}
	got := p.get(paths[0][1])
	got.has(t, http.StatusOK, image)
	for header, want := range map[string]string{
		"Content-Type": "image/svg+xml", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":           "public, max-age=31536000, immutable",
		"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox",
	} {
		if got := got.header.Get(header); got != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	tag := got.header.Get("ETag")
	if again := p.do(http.MethodGet, paths[0][1], nil, "If-None-Match", tag); again.status != http.StatusNotModified || tag == "" {
		t.Errorf("with the tag %q: got %d, want 304", tag, again.status)
	}
	if policy := front.header.Get("Content-Security-Policy"); !strings.Contains(policy, "img-src 'self'") {
		t.Errorf("the policy is %q", policy)
	}
}
