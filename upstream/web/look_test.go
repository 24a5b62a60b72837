package web

import (
	"flag"
	"maps"
	"math"
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

// What stands on one line stands on one line: the middles of all that is
// in the bar at the top, and the text of My usage's heading and of the
// button beside it.
func TestAlignment(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	for look, options := range map[string][]browsertest.Option{
		"wide": {browsertest.Wide}, "dark": {browsertest.Wide, browsertest.Dark}, "phone": {browsertest.Phone},
	} {
		page := browser.Person(options...)
		page.Go(server.URL + "/usage")
		const middles = `[...document.querySelectorAll(".brand, .top nav, .email, .who button")]
			.filter(e => e.offsetHeight && !(innerWidth < 640 && e.matches("nav")))
			.map(e => e.getBoundingClientRect()).map(r => (r.top + r.bottom) / 2)`
		got := browsertest.Evaluate[[]float64](page, middles)
		if len(got) < 2 || slices.Max(got)-slices.Min(got) > 1 {
			t.Errorf("%s: the middles of the bar's entries are at %v", look, got)
		}
		if look == "phone" {
			continue // the button is below the heading
		}
		// An empty inline block is on the base line of its text.
		const lines = `["main h1", "#pause"].map(selector => {
			const mark = document.createElement("span");
			mark.style.display = "inline-block";
			document.querySelector(selector).append(mark);
			return mark.getBoundingClientRect().bottom;
		})`
		page.PressHere("#pause")
		if got := browsertest.Evaluate[[]float64](page, lines); math.Abs(got[0]-got[1]) > 1 {
			t.Errorf("%s: the heading is at %.1f, the button beside it at %.1f", look, got[0], got[1])
		}
	}
}

// Nothing is cut off, however narrow the screen. On a phone, only code, the
// docs and the table of the chart scroll to the side.
func TestNothingIsCutOff(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	for look, size := range map[string]browsertest.Option{
		"wide": browsertest.Wide, "320": browsertest.PhoneOf(320), "360": browsertest.PhoneOf(360), "390": browsertest.Phone,
	} {
		page := browser.Person(size)
		for _, name := range slices.Sorted(maps.Keys(stories())) {
			page.Go(server.URL + "/" + name)
			const cut = `[...document.querySelectorAll("body *")].filter(e => e.offsetWidth && e.scrollWidth > e.clientWidth + 1 &&
				getComputedStyle(e).overflowX !== "visible" && !e.closest("pre, .docs, details"))
				.map(e => e.className + ": " + e.scrollWidth + " of " + e.clientWidth + " pixels: " + e.textContent.slice(0, 200))`
			for _, text := range browsertest.Evaluate[[]string](page, cut) {
				t.Errorf("%s, %s: cuts off %s", name, look, text)
			}
			if over := browsertest.Evaluate[int](page, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
				t.Errorf("%s, %s: %d pixels wider than the window", name, look, over)
			}
		}
	}
}

// On a phone, the status, the code and the number of refusals of each recent
// call are inside the card, and nothing of the row is over them. The story has a
// row for each code.
func TestPhoneShowsEachRefusal(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	for _, width := range []int64{320, 360, 390} {
		page := browser.Person(browsertest.PhoneOf(width))
		for _, story := range []string{"calls-codes", "calls-burst"} {
			page.Go(server.URL + "/" + story)
			const hidden = `[...document.querySelectorAll(".calls tbody tr")].flatMap(row => {
				const inside = row.closest(".card").getBoundingClientRect();
				const boxes = [...row.querySelectorAll("td > *")].filter(e => e.checkVisibility()).map(e => {
					const range = document.createRange();
					range.selectNodeContents(e);
					return [e.textContent, range.getBoundingClientRect()];
				});
				const over = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
				return boxes.filter(([, box], i) => box.left < inside.left - 1 || box.right > inside.right + 1 ||
					boxes.some(([, other], j) => i !== j && over(box, other))).map(([text]) => text);
			})`
			for _, text := range browsertest.Evaluate[[]string](page, hidden) {
				t.Errorf("%s, %d: %q is outside of the card or under other text", story, width, text)
			}
		}
	}
}

// The labels of the chart are below the middle of their bars, and none is over
// another or outside of the card.
func TestChartLabels(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	for look, size := range map[string]browsertest.Option{
		"wide": browsertest.Wide, "320": browsertest.PhoneOf(320), "360": browsertest.PhoneOf(360), "390": browsertest.Phone,
	} {
		page := browser.Person(size)
		for story, want := range map[string]int{"usage": 4, "usage-7": 4, "usage-90": 4} {
			page.Go(server.URL + "/" + story)
			const labels = `[...document.querySelectorAll(".x i")].map((e, i, all) => {
				const range = document.createRange(), plot = document.querySelector(".plot").getBoundingClientRect();
				range.selectNodeContents(e);
				const box = range.getBoundingClientRect();
				return {Text: e.textContent, Left: box.left, Right: box.right, Bar: plot.left + plot.width * (i + 0.5) / all.length};
			}).filter(label => label.Text)`
			type label struct {
				Text             string
				Left, Right, Bar float64
			}
			got := browsertest.Evaluate[[]label](page, labels)
			if len(got) < want {
				t.Errorf("%s, %s: got %d labels, want at least %d", story, look, len(got), want)
			}
			card := browsertest.Evaluate[[]float64](page, `(r => [r.left, r.right])(document.querySelector(".chart").closest(".card").getBoundingClientRect())`)
			before := card[0]
			for _, l := range got {
				if middle := (l.Left + l.Right) / 2; math.Abs(middle-l.Bar) > 1 {
					t.Errorf("%s, %s: the middle of %s is at %.0f, its bar at %.0f", story, look, l.Text, middle, l.Bar)
				}
				if l.Left < before+1 || l.Right > card[1] {
					t.Errorf("%s, %s: %s from %.0f to %.0f is over the label before it, or outside of the card", story, look, l.Text, l.Left, l.Right)
				}
				before = l.Right
			}
		}
	}
}

// TestDocsAreShort: the reference of the API is folded, so that people find an
// endpoint without scrolling for long.
func TestDocsAreShort(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	page := browsertest.Start(t).Person(browsertest.Wide)
	for _, path := range []string{"/docs", "/docs-go", "/docs-errors"} {
		page.Go(server.URL + path)
		if height := browsertest.Evaluate[int](page, "document.documentElement.scrollHeight"); height > 6300 {
			t.Errorf("%s is %d pixels high, want at most 6300", path, height)
		}
	}
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
	"390-light":  {browsertest.Phone, 390, false, false},
	"390-dark":   {browsertest.Phone, 390, true, true},
}

// Every state of every page is free of what axe-core finds, and is not wider
// than the window.
func TestStoriesAreAccessible(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	for _, name := range slices.Sorted(maps.Keys(looks)) {
		look := looks[name]
		judged := look.axe || storetest.Long()
		if !judged && *shots == "" {
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
			if width := browsertest.Evaluate[int](page, "document.documentElement.scrollWidth"); width > look.width {
				t.Errorf("%s, %s: %d pixels wide, want at most %d", story, name, width, look.width)
			}
		}
	}
}
