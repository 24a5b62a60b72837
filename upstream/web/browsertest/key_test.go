package browsertest_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/web/browsertest"
)

// TestKeyPage creates a key in the form, runs the samples of its page, and
// reads what they did on the page of the key; once with JavaScript and once
// without.
func TestKeyPage(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]browsertest.Option{"with JavaScript": nil, "without": {browsertest.NoScript}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stack.Start(t, stack.Shipped(t))
			addAccount(s, "starter")
			p := browsertest.Start(t).Person(options...)
			signIn(t, s, p)
			token := createKey(t, s, p)
			if options == nil {
				copyToken(t, p, token)
			}
			runSamples(t, p)
			if got := call(s, token); got != http.StatusForbidden {
				t.Errorf("an endpoint that the key lacks: got %d, want 403", got)
			}
			p.Go(s.Address + "/settings/keys")
			p.Press("table.keys a")
			for _, words := range []string{"3 admitted", "1 refused", "All recent calls with this key", "No access to", "GET /api/rates/{base}", "GET /api/currencies"} {
				if text := oneLine(p); !strings.Contains(text, words) {
					t.Errorf("the page of the key lacks %q: %s", words, text)
				}
			}
			if first := p.Text("#calls tr"); !strings.Contains(first, convert) || !strings.Contains(first, "403") {
				t.Errorf("the last call is %q, want the refused one", first)
			}
			runSamples(t, p, "TOKEN="+token)
			p.Go(s.Address + p.Path())
			if text := oneLine(p); !strings.Contains(text, "6 admitted") {
				t.Errorf("after the samples of the page: %s", text)
			}
			if options == nil {
				for _, violation := range p.Violations() {
					t.Error(violation)
				}
			}
		})
	}
}

// oneLine returns the text of a page with single spaces.
func oneLine(p *browsertest.Page) string { return strings.Join(strings.Fields(p.Text("main")), " ") }

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

// runSamples runs the samples of a page, each as its tab shows it.
func runSamples(t *testing.T, p *browsertest.Page, env ...string) {
	t.Helper()
	for _, language := range []struct{ id, file, program string }{
		{"curl", "try.sh", "sh"}, {"javascript", "try.mjs", "node"}, {"python", "try.py", "python3"},
	} {
		p.PressHere(fmt.Sprintf(`.samples [value="%s"] + span`, language.id))
		file := filepath.Join(t.TempDir(), language.file)
		if err := os.WriteFile(file, []byte(p.Text("#"+language.id)), 0o600); err != nil {
			t.Fatal(err)
		}
		const visible = `[...document.querySelectorAll(".samples pre")].filter(e => e.checkVisibility()).map(e => e.id).join()`
		if got := browsertest.Evaluate[string](p, visible); got != language.id {
			t.Errorf("shows the samples %s, want %s", got, language.id)
		}
		command := exec.CommandContext(t.Context(), language.program, file)
		command.Env = append(os.Environ(), env...)
		if out, err := command.CombinedOutput(); err != nil || !strings.Contains(string(out), `"currencies"`) {
			t.Errorf("the sample in %s: %v\n%s", language.id, err, out)
		}
	}
}

// TestKeyList searches and sorts a long list; once with JavaScript and once
// without. A phone shows the last use and the expiry of each key.
func TestKeyList(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	account := addAccount(s, "starter")
	for i := range 12 {
		s.Tollgate("key", "create", account, "--name", fmt.Sprintf("job %02d", i), "--ttl", fmt.Sprintf("%dd", 100+i))
	}
	browser := browsertest.Start(t)
	first := func(p *browsertest.Page) string { return p.Text(`table.keys tbody tr`) }
	for name, options := range map[string][]browsertest.Option{"with JavaScript": nil, "without": {browsertest.NoScript}} {
		p := browser.Person(options...)
		signIn(t, s, p)
		p.Go(s.Address + "/settings/keys")
		p.Press(`th:nth-child(1) a`)
		if got := first(p); !strings.Contains(got, "job 00") {
			t.Errorf("%s: by name, the first is %s", name, got)
		}
		p.Press(`th:nth-child(5) a`)
		p.Press(`th:nth-child(5) a`)
		const sorted = `document.querySelector("[aria-sort]").textContent + document.querySelector("[aria-sort]").ariaSort`
		if got := browsertest.Evaluate[string](p, sorted); !strings.Contains(first(p), "job 11") || got != "Expirydescending" {
			t.Errorf("%s: sorted by %s, the first is %s", name, got, first(p))
		}
		p.Type(`[name="q"]`, "JOB 1")
		if p.Press(`.find button`); !p.Shows("2 keys match “JOB 1”.") || !strings.Contains(first(p), "job 11") {
			t.Errorf("%s: the search shows %s", name, p.Text("main"))
		}
	}
	p := browser.Person(browsertest.Phone)
	signIn(t, s, p)
	p.Go(s.Address + "/settings/keys?sort=name")
	const seen = `[...document.querySelectorAll("table.keys tbody tr:first-child > [data-label]")].filter(e => e.checkVisibility() &&
		e.getBoundingClientRect().right <= innerWidth).map(e => getComputedStyle(e, "::before").content + e.textContent.trim().slice(0, 5)).join()`
	if got := browsertest.Evaluate[string](p, seen); !strings.HasPrefix(got, `"Last used"Never,"Expiry"`) {
		t.Errorf("a phone shows %s", got)
	}
	for _, violation := range p.Violations() {
		t.Error(violation)
	}
}
