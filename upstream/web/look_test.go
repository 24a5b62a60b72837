package web

import (
	"flag"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// shots is where to put pictures of every state of every page, in all looks:
//
//	go test ./upstream/web -run Accessible -shots DIRECTORY
var shots = flag.String("shots", "", "`directory` to write pictures of every state of every page to")

// gallery serves the stories under the headers that pages have.
func gallery(t *testing.T) *httptest.Server {
	t.Helper()
	s := storySite(t)
	mux := http.NewServeMux()
	mux.Handle(staticPrefix, s.views.assets.or(http.NotFoundHandler()))
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

// look is a window in which people see pages.
type look struct {
	size  browsertest.Option
	width int
	dark  bool
	// axe lets axe-core judge the pages in this look. Colors are the same at
	// all widths and the layout is the same in all colors, so a part of the
	// looks shows both. All looks are judged with test --long.
	axe bool
}

func (l look) options() []browsertest.Option {
	if l.dark {
		return []browsertest.Option{l.size, browsertest.Dark}
	}
	return []browsertest.Option{l.size}
}

var looks = map[string]look{
	"1440-light": {browsertest.Wide, 1440, false, true},
	"1440-dark":  {browsertest.Wide, 1440, true, false},
	"820-light":  {browsertest.Tablet, 820, false, true},
	"820-dark":   {browsertest.Tablet, 820, true, false},
	"320-light":  {browsertest.PhoneOf(320), 320, false, false},
	"390-dark":   {browsertest.Phone, 390, true, true},
}

// Every state of every page is free of what axe-core finds, is not wider than
// the window, and has nothing that is cut off on the widest and the narrowest
// screen. Only code, the docs and the table of the chart scroll to the side.
func TestStoriesAreAccessible(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	for _, name := range slices.Sorted(maps.Keys(looks)) {
		look := looks[name]
		judged, narrow := look.axe || storetest.Long(), look.width == 320
		if !judged && !narrow && *shots == "" {
			continue
		}
		page := browser.Person(look.options()...)
		for _, story := range slices.Sorted(maps.Keys(stories())) {
			page.Go(server.URL + "/" + story)
			if *shots != "" {
				page.Screenshot(filepath.Join(*shots, name, story+".png"))
			}
			if judged {
				for _, violation := range page.Violations() {
					t.Errorf("%s, %s: %s", story, name, violation)
				}
			}
			const cut = `[...document.querySelectorAll("body *")].filter(e => e.offsetWidth && e.scrollWidth > e.clientWidth + 1 &&
				getComputedStyle(e).overflowX !== "visible" && !e.closest("pre, .docs, details"))
				.map(e => e.className + ": " + e.scrollWidth + " of " + e.clientWidth + " pixels: " + e.textContent.slice(0, 200))`
			if narrow || name == "1440-light" {
				for _, text := range browsertest.Evaluate[[]string](page, cut) {
					t.Errorf("%s, %s: cuts off %s", story, name, text)
				}
			}
			if width := browsertest.Evaluate[int](page, "document.documentElement.scrollWidth"); width > look.width {
				t.Errorf("%s, %s: %d pixels wide, want at most %d", story, name, width, look.width)
			}
		}
	}
}
