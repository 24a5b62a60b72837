package browsertest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// A person with only a keyboard signs in, creates a key and gets
// back. The focus is always to be seen.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	addAccount(s, "starter")
	p := browsertest.Start(t).Person()
	p.Go(s.Address + "/settings/keys/new")
	p.Await("#email:focus", "") // the browser sets it with the first frame, maybe after it has loaded the page
	p.Keys(email + kb.Tab + password)
	if status := p.Enter(); status != http.StatusOK || p.Path() != "/settings/keys/new" {
		t.Fatalf("got %d at %s, want the form for a key", status, p.Path())
	}
	p.Await("#name:focus", "")
	p.Keys("typed")
	for range 20 {
		p.Keys(kb.Tab)
		const seen = `(e => e.matches(":focus-visible") && (getComputedStyle(e).outlineStyle !== "none" ||
			getComputedStyle(e.nextElementSibling ?? e).outlineStyle !== "none"))(document.activeElement)`
		if !browsertest.Evaluate[bool](p, seen) {
			t.Errorf("the focus on %q is not to be seen", browsertest.Evaluate[string](p, "document.activeElement.outerHTML"))
		}
		if browsertest.Evaluate[bool](p, `document.activeElement.matches("main form .primary")`) {
			break
		}
	}
	p.Enter()
	if !p.Shows("typed is ready") {
		t.Fatalf("the page says %s", p.Text("main"))
	}
	p.Go(s.Address + "/settings/keys")
	p.Keys(kb.Tab)
	if got := browsertest.Evaluate[string](p, "document.activeElement.textContent"); got != "Skip to content" {
		t.Errorf("the first stop is %q, want the way past the menu", got)
	}
}

// The script adds a button that keeps the page from changing, and says when the
// page cannot update itself.
func TestScript(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	addAccount(s, "starter")
	p := browsertest.Start(t).Person()
	signIn(t, s, p)
	p.Go(s.Address + "/settings/keys/new")
	p.Type("#name", "ci")
	p.Press("main form .primary")
	token := p.Text("#token")
	call(s, token)
	p.Go(s.Address + "/usage")
	holdFetch(p)
	p.PressHere("#pause")
	if got := p.Text("#pause"); got != "Paused · Resume" {
		t.Errorf("the button says %q", got)
	}
	call(s, token)
	browsertest.EvaluateAsync[bool](p, "letGo()")
	if got := p.Text("#meters"); !strings.Contains(got, "1 of 1,000 used") {
		t.Errorf("a paused page says %s", got)
	}
	p.PressHere("#pause")
	p.Await("#meters", "2 of 1,000 used")

	s.StopUpstream()
	p.Await("#pause", "Reconnecting")
	s.StartUpstream()
	p.Await("#pause", "Pause updates")
}

// holdFetch waits until the page fetches something, and holds this request
// until letGo is called.
func holdFetch(p *browsertest.Page) {
	browsertest.EvaluateAsync[bool](p, `new Promise((begun) => {
		const plain = fetch;
		window.fetch = async (...request) => {
			window.fetch = plain;
			await new Promise((go) => {
				window.letGo = () => {
					go();
					return new Promise((settled) => setTimeout(settled, 500, true)); // for the page to take the answer
				};
				begun(true);
			});
			return plain(...request);
		};
	})`)
}
