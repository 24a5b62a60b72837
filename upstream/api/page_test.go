package api_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/api"
)

// TestReference: the page has all endpoints and errors, and loads nothing.
func TestReference(t *testing.T) {
	t.Parallel()
	currencies, err := api.New(sourceOf(fixture(t)), site, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	text := string(currencies.Reference)
	shown := append(api.Routes(), api.Route{Method: "POST", Path: "/api/login"}, api.Route{Method: "GET", Path: "/api/usage"})
	for _, route := range shown {
		if !strings.Contains(text, `<span class="method">`+route.Method+`</span> <code>`+route.Path+`</code>`) {
			t.Errorf("%s %s is not on the page", route.Method, route.Path)
		}
	}
	for _, word := range []string{"Limits", "RateLimit", "Retry-After", "midnight", "export BASE=" + site.String() + "\n"} {
		if !strings.Contains(text, word) {
			t.Errorf("the page lacks %s", word)
		}
	}
	for _, code := range []string{"upstream_unreachable", "invalid_token", "quota_exceeded", "invalid_amount", "too_many_attempts"} {
		if got := strings.Count(text, `<th scope="row"><code>`+code+`</code></th>`); got < 1 || got > 2 {
			t.Errorf("%s is in %d rows, want 1, or 2 with two statuses", code, got)
		}
	}
	for _, loads := range []string{"<script", "<link", "<img", "<iframe", " src=", "url(", "@import", "style", " onclick="} {
		if strings.Contains(text, loads) {
			t.Errorf("the page has %s", loads)
		}
	}
	ids := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if ids[id[1]] {
			t.Errorf("duplicate id %s", id[1])
		}
		ids[id[1]] = true
	}
	for _, link := range regexp.MustCompile(`(?:href="#|data-copy=")([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if !ids[link[1]] {
			t.Errorf("nothing has the id %s", link[1])
		}
	}
	t.Logf("%d bytes", len(text))
}
