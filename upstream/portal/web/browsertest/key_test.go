package browsertest_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// TestKeyForm creates a key and copies its token. The form shows the fields of a
// choice by its style alone.
func TestKeyForm(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	addAccount(s, "starter")
	p := browsertest.Start(t).Person()
	signIn(t, s, p)
	copyToken(t, p, createKey(t, s, p))
}

// createKey creates a key for one endpoint that expires on another date.
func createKey(t *testing.T, s *stack.Stack, p *browsertest.Page) string {
	t.Helper()
	p.Go(s.Address + "/settings/keys/new")
	const shown = `["#until", ".these"].map(selector => document.querySelector(selector).checkVisibility()).join()`
	if got := browsertest.Evaluate[string](p, shown); got != "false,false" {
		t.Errorf("the date and the endpoints are shown: %s", got)
	}
	p.Type("#name", "lister")
	p.PressHere(`[value="some"]`)
	p.PressHere(`[value="date"] + span`)
	if got := browsertest.Evaluate[string](p, shown); got != "true,true" {
		t.Errorf("the date and the endpoints are not shown: %s", got)
	}
	for _, ability := range []string{"convert", "rates", "history", "usage"} {
		p.PressHere(`[name="ability"][value="` + ability + `"]`)
	}
	browsertest.Evaluate[string](p, `document.querySelector("#until").value = "2099-12-31"`)
	p.Press("main form .primary")
	if !p.Shows("Permissions: currencies. It expires 31 Dec 2099.") {
		t.Fatalf("the page says %s", p.Text("main"))
	}
	return p.Text("#token")
}

// copyToken copies the token by its button.
func copyToken(t *testing.T, p *browsertest.Page, token string) {
	t.Helper()
	p.PressHere(`[data-copy="token"]`)
	p.Await(`[data-copy="token"]`, "Copied")
	p.Await(`main > [role="status"]`, "Copied")
	p.Await(`[data-copy="token"]`, "Copy")
	// Without a clipboard, the button selects the token.
	browsertest.Evaluate[bool](p, `Object.defineProperty(navigator, "clipboard", {value: undefined}) === navigator`)
	p.PressHere(`[data-copy="token"]`)
	p.Await(`[data-copy="token"]`, "Press Ctrl+C")
	if got := browsertest.Evaluate[string](p, "String(getSelection())"); strings.TrimSpace(got) != token {
		t.Errorf("the button selects %q, want the token", got)
	}
}
