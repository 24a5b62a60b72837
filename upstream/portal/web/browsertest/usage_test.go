package browsertest_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// My usage shows a refused call with its code, without JavaScript too. The
// tooltip of the chart works with the mouse, the keyboard and by touch. The page
// shows an override, and calls that were given back in the meter and in the chart.
// A person selects the refused calls, and opens the older ones, with the keyboard.
func TestUsagePage(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 2\n"))
	account := addAccount(s, "starter")
	token := regexp.MustCompile(`tgk_\w+`).FindString(s.Tollgate("key", "create", account, "--name", "ci", "--json"))
	for range 25 {
		call(s, token)
	}
	awaitRefused(t, s, account)
	browser := browsertest.Start(t)

	plain := browser.Person(browsertest.NoScript)
	signIn(t, s, plain)
	plain.Go(s.Address + "/usage")
	for _, want := range []string{"Used up", "quota_exceeded", "Refused 23", "Shown: 20 of the last 25 calls, 23 of them refused."} {
		if !plain.Shows(want) {
			t.Errorf("the page lacks %q: %s", want, plain.Text("main"))
		}
	}
	const rows = `document.querySelectorAll("#calls tr").length`
	for _, step := range []struct {
		link, shows string
		rows        int
	}{{"?calls=refused", "Refused: 23 of the last 25 calls.", 23}, {"?#", "Shown: 20 of the last 25", 20}, {"?calls=all", "Shown: 25 of the last 25", 25}} {
		browsertest.Evaluate[chromedp.Void](plain, `document.querySelector('main a[href^="`+step.link+`"]').focus()`)
		if status := plain.Enter(); status != 200 || !plain.Shows(step.shows) || browsertest.Evaluate[int](plain, rows) != step.rows {
			t.Errorf("%s: got %d with %d calls: %s", step.link, status, browsertest.Evaluate[int](plain, rows), plain.Text("main"))
		}
	}
	p := browser.Person()
	signIn(t, s, p)
	p.Go(s.Address + "/usage")
	const tip = `document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent`
	browsertest.Evaluate[chromedp.Void](p, `document.querySelector(".plot").focus()`)
	if got := browsertest.Evaluate[string](p, tip); !strings.Contains(got, "2 admitted, 23 refused\nconvert 2") {
		t.Errorf("with the focus: got %q", got)
	}
	p.Keys(kb.ArrowLeft)
	if got := browsertest.Evaluate[string](p, tip); !strings.HasSuffix(got, ": no calls") {
		t.Errorf("on the day before: got %q", got)
	}
	p.Keys(kb.Escape)
	for _, kind := range []string{"mouse", "touch"} {
		at := `(() => {
			const plot = document.querySelector(".plot"), box = plot.getBoundingClientRect();
			plot.dispatchEvent(new PointerEvent("` + map[string]string{"mouse": "pointermove", "touch": "pointerdown"}[kind] + `", {pointerType: "` + kind + `", clientX: box.right - 2, clientY: box.top + 9}));
			return ` + tip + `})()`
		if got := browsertest.Evaluate[string](p, at); !strings.Contains(got, "convert 2") {
			t.Errorf("with %s: got %q", kind, got)
		}
	}

	s.Tollgate("limit", "set", account, "convert", "5000", "--until", "2099-12-31")
	s.Tollgate("usage", "reset", account)
	plain.Go(s.Address + "/usage")
	for _, want := range []string{"convert: 5,000 a day until 31 Dec 2099 (your plan: 2)", "0 of 5,000 used, 2 given back", "convert 0", "Given back 2"} {
		if !plain.Shows(want) {
			t.Errorf("after a reset and an override, the page lacks %q: %s", want, plain.Text("main"))
		}
	}
	plain.Go(s.Address + "/settings/plan")
	if want := "convert: 5,000 a day until 31 Dec 2099 (your plan: 2)"; !plain.Shows(want) {
		t.Errorf("Plan lacks %q: %s", want, plain.Text("main"))
	}
	p.Go(s.Address + "/usage")
	browsertest.Evaluate[chromedp.Void](p, `document.querySelector(".plot").focus()`)
	if got := browsertest.Evaluate[string](p, tip); !strings.Contains(got, "2 admitted, 23 refused\nGiven back 2") {
		t.Errorf("after a reset: got %q", got)
	}
	for _, found := range p.Violations() {
		t.Error(found)
	}
}

// awaitRefused waits until the gate has stored the refused call.
func awaitRefused(t *testing.T, s *stack.Stack, account string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.Tollgate("usage", "refused", "--account", account), "quota_exceeded"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gate does not report the refused call")
		}
	}
}
