package web

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// shots is where to put pictures of every state of every page, in all looks:
//
//	go test ./upstream/portal/web -run Accessible -shots DIRECTORY
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
}

func (l look) options() []browsertest.Option {
	if l.dark {
		return []browsertest.Option{l.size, browsertest.Dark}
	}
	return []browsertest.Option{l.size}
}

// The widest and the narrowest window.
const widest, narrowest = 1440, 320

var looks = map[string]look{
	"1440-light": {browsertest.Wide, widest, false},
	"1440-dark":  {browsertest.Wide, widest, true},
	"820-light":  {browsertest.Tablet, 820, false},
	"820-dark":   {browsertest.Tablet, 820, true},
	"320-light":  {browsertest.PhoneOf(narrowest), narrowest, false},
	"390-dark":   {browsertest.Phone, 390, true},
}

// Every state of every page is free of what axe-core finds, is not wider than
// the window, and has nothing that is cut off on the widest and the narrowest
// screen. Only code, the docs and the table of the chart scroll to the side.
//
// Every state is shown on the narrowest screen, and is judged in one of the
// looks: the next state in the next look. With test --long all states are
// judged in all looks.
func TestStoriesAreAccessible(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	browser := browsertest.Start(t)
	names := slices.Sorted(maps.Keys(looks))
	for turn, name := range names {
		page := browser.Person(looks[name].options()...)
		for i, story := range slices.Sorted(maps.Keys(stories())) {
			judged := storetest.Long() || i%len(names) == turn
			if !judged && looks[name].width != narrowest && *shots == "" {
				continue
			}
			page.Go(server.URL + "/" + story)
			if *shots != "" {
				page.Screenshot(filepath.Join(*shots, name, story+".png"))
			}
			for _, problem := range problems(page, looks[name], judged) {
				t.Errorf("%s, %s: %s", story, name, problem)
			}
		}
	}
}

// On a phone, the menu and the tabs of every state of every page are one row
// each, and a finger can press every link. The widest menu is that of an operator.
func TestPhone(t *testing.T) {
	t.Parallel()
	server := gallery(t)
	page := browsertest.Start(t).Person(browsertest.PhoneOf(360))
	const small = `[...document.querySelectorAll("a, button, summary")].filter(e => e.offsetParent && !e.matches(".skip"))
		.flatMap(e => [...e.getClientRects()].filter(box => box.height < 24).map(box => "a link of " + box.height + " px: " + e.textContent))`
	const rows = `[...document.querySelectorAll(".top nav, .tabs")].filter(menu => menu.scrollWidth > menu.clientWidth ||
		new Set([...menu.children].map(e => e.offsetTop)).size > 1).map(menu => "more than one row: " + menu.textContent)`
	for _, story := range slices.Sorted(maps.Keys(stories())) {
		page.Go(server.URL + "/" + story)
		for _, problem := range browsertest.Evaluate[[]string](page, "["+small+", "+rows+"].flat()") {
			t.Errorf("%s: %s", story, problem)
		}
	}
	page.Go(server.URL + "/front")
	if got := page.Text(".button"); got != "Sign up" {
		t.Errorf("the first button of a stranger is %q", got)
	}
}

// The docs hide nothing in silence: the overview and samples are open, answers of up to
// ten lines are whole, and longer ones say how long they are and scroll by keyboard.
func TestDocsAreWhole(t *testing.T) {
	t.Parallel()
	server, browser := gallery(t), browsertest.Start(t)
	for name, size := range map[string]browsertest.Option{"wide": browsertest.Wide, "a phone": browsertest.PhoneOf(360)} {
		page := browser.Person(size)
		for path, long := range map[string]int{"/docs": 4, "/docs-go": 4, "/docs-errors": 0} {
			page.Go(server.URL + path)
			const scrolled = `[...document.querySelectorAll("pre")].filter(e => e.scrollHeight > e.clientHeight + 1)`
			if got := browsertest.Evaluate[int](page, scrolled+".length"); got != long {
				t.Errorf("%s on %s has %d long pieces of code, want %d", path, name, got, long)
			}
			for _, text := range browsertest.Evaluate[[]string](page, scrolled+`.filter(e => e.tabIndex ||
				e.nextElementSibling?.textContent !== e.textContent.split("\n").length + " lines: scroll for the rest.").map(e => e.textContent)`) {
				t.Errorf("%s on %s cuts off in silence: %s", path, name, text)
			}
			for _, text := range browsertest.Evaluate[[]string](page, `[...document.querySelectorAll("#overview p, #overview details > *")].filter(e => !e.checkVisibility()).map(e => e.textContent)`) {
				t.Errorf("%s on %s hides %s", path, name, text)
			}
		}
	}
}

// broken are the words of a page that are on two lines. Longer words, names and
// addresses may break.
const broken = `(() => {
	const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node = texts.nextNode(); node; node = texts.nextNode()) {
		for (const word of node.data.matchAll(/(?<=^|[\s(])[A-Za-z_]{2,18}(?=[.,:;)]?(\s|$))/g)) {
			const range = document.createRange();
			range.setStart(node, word.index);
			range.setEnd(node, word.index + word[0].length);
			if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1) found.push(word[0] + " in " + node.data.slice(0, 60));
		}
	}
	return found;
})()`

// problems returns what is wrong with the layout of a page, and what axe-core
// finds if it is to judge.
func problems(page *browsertest.Page, l look, judged bool) []string {
	var found []string
	if judged {
		found = page.Violations()
	}
	const cut = `[...document.querySelectorAll("body *")].filter(e => e.offsetWidth && e.scrollWidth > e.clientWidth + 1 &&
		getComputedStyle(e).overflowX !== "visible" && !e.closest("pre, .docs, details"))
		.map(e => e.className + ": " + e.scrollWidth + " of " + e.clientWidth + " pixels: " + e.textContent.slice(0, 200))`
	for _, text := range browsertest.Evaluate[[]string](page, broken) {
		found = append(found, "breaks the word "+text)
	}
	if l.width == narrowest || l.width == widest {
		for _, text := range browsertest.Evaluate[[]string](page, cut) {
			found = append(found, "cuts off "+text)
		}
	}
	if width := browsertest.Evaluate[int](page, "document.documentElement.scrollWidth"); width > l.width {
		found = append(found, fmt.Sprintf("%d pixels wide, want at most %d", width, l.width))
	}
	return found
}
