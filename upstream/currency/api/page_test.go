package api_test

import (
	"cmp"
	"html/template"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/currency/api"
)

// TestReference: the pages have all endpoints and errors, and load nothing.
func TestReference(t *testing.T) {
	t.Parallel()
	currencies, err := api.New(sourceOf(fixture(t)), site, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	shown := append(api.Routes(), api.Route{Method: "POST", Path: "/api/login"}, api.Route{Method: "GET", Path: "/api/usage"})
	for _, path := range []string{"/docs", "/docs/javascript", "/docs/python", "/docs/go"} {
		text := string(currencies.Reference[path])
		for _, route := range shown {
			if !strings.Contains(text, `<span class="method">`+route.Method+`</span> <code>`+route.Path+`</code>`) {
				t.Errorf("%s %s is not on %s", route.Method, route.Path, path)
			}
		}
		for _, word := range []string{`<a href="#latest">Latest rates</a>`, `<a href="#csv">CSV</a>`, `<a href="#absent">Not available</a>`, "Cryptocurrencies", "Bid and ask", "by the minute",
			"text/csv", "\n2026-03-27,EUR,USD,1.1517,ECB</pre>", "Limits", "RateLimit", "Retry-After", "midnight", "export BASE=" + site.String() + "\n"} {
			if !strings.Contains(text, word) {
				t.Errorf("%s lacks %s", path, word)
			}
		}
		if got := strings.Count(text, "send <code>Accept: text/csv</code>"); got != 3 {
			t.Errorf("%s says %d times how to get CSV, want 3", path, got)
		}
		for _, name := range []string{"results[].index", "currencies[].parity.authority", "summary.high.date"} {
			if got := strings.Count(text, "<dt><code>"+name+"</code>"); got != 1 {
				t.Errorf("%s has %s %d times", path, name, got)
			}
		}
		for _, closed := range strings.Split(text, "<details>")[1:] {
			if closed, _, _ = strings.Cut(closed, "</details>"); strings.Contains(closed, "<dl>") {
				t.Errorf("%s hides members: %s", path, closed)
			}
		}
		if _, first, _ := strings.Cut(text, `<pre class="answer"`); !strings.Contains(first[:200], `"date"`) || !strings.Contains(first[:200], `"source"`) {
			t.Errorf("the first answer of %s is %s", path, first[:200])
		}
	}
	text := string(currencies.Reference["/docs/errors"])
	for _, code := range []string{"upstream_unreachable", "invalid_token", "quota_exceeded", "invalid_amount", "too_many_attempts"} {
		if got := strings.Count(text, `<th scope="row"><code>`+code+`</code></th>`); got < 1 || got > 2 {
			t.Errorf("%s is in %d rows, want 1, or 2 with two statuses", code, got)
		}
	}
	for path, text := range currencies.Reference {
		checkPart(t, path, string(text), currencies.Reference)
	}
}

// checkPart checks that a page loads nothing, and that its links lead to
// something.
func checkPart(t *testing.T, page, text string, pages map[string]template.HTML) {
	t.Helper()
	for _, loads := range []string{"<script", "<link", "<img", "<iframe", " src=", "url(", "@import", "style", " onclick="} {
		if strings.Contains(text, loads) {
			t.Errorf("%s has %s", page, loads)
		}
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if ids[id[1]] {
			t.Errorf("%s has the id %s twice", page, id[1])
		}
		ids[id[1]] = true
	}
	for _, link := range regexp.MustCompile(`href="([^#"]*)#?([^"]*)"|data-copy="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		to, anchor := cmp.Or(link[1], page), cmp.Or(link[2], link[3])
		if to == "/openapi.json" {
			continue
		}
		if there, found := pages[to]; !found || anchor != "" && !strings.Contains(string(there), ` id="`+anchor+`"`) {
			t.Errorf("%s: nothing is at %s#%s", page, to, anchor)
		}
	}
}
