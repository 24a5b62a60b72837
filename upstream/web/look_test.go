package web

import (
	"flag"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// shots is where to put pictures of the whole storybook, in light and
// dark, on a phone and on a laptop.
var shots = flag.String("shots", "", "`directory` to write pictures of every state of every page to")

// gallery serves the stories under the headers that pages have.
func gallery(t *testing.T) *httptest.Server {
	t.Helper()
	s := storySite(t)
	mux := http.NewServeMux()
	mux.Handle(staticPrefix, s.views.assets)
	mux.Handle("/{story}", s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tell, known := stories()[r.PathValue("story")]
		if !known {
			http.NotFound(w, r)
			return
		}
		if err := tell(s, w); err != nil {
			t.Error(err)
		}
	})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// Every state of every page is free of what axe-core finds, in light and
// dark, and nowhere wider than a phone.
func TestStoriesAreAccessible(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	looks := map[string][]browsertest.Option{
		"light":       {browsertest.Wide},
		"dark":        {browsertest.Wide, browsertest.Dark},
		"light-phone": {browsertest.Phone},
		"dark-phone":  {browsertest.Phone, browsertest.Dark},
	}
	for _, look := range slices.Sorted(maps.Keys(looks)) {
		page := browser.Person(looks[look]...)
		for _, name := range slices.Sorted(maps.Keys(stories())) {
			page.Go(server.URL + "/" + name)
			if *shots != "" {
				page.Screenshot(filepath.Join(*shots, look, name+".png"))
			}
			for _, violation := range page.Violations() {
				t.Errorf("%s, %s: %s", name, look, violation)
			}
			if strings.HasSuffix(look, "phone") {
				width := browsertest.Evaluate[int](page, "document.documentElement.scrollWidth")
				if width > 390 {
					t.Errorf("%s, %s: %d pixels wide, want at most 390", name, look, width)
				}
			}
		}
	}
}
