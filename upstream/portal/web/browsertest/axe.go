package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// axeVersion is pinned: a later one may find more, and then the pages are
// mended together with this line.
const axeVersion = "4.14.1"

// axe returns the source of axe-core.
func axe(t testing.TB) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(npmtest.Install(t, "axe-core@"+axeVersion), "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// Violations returns what axe-core finds wrong with the page: its rules
// for WCAG 2.2 up to level AA, and its best practices.
func (p *Page) Violations() []string {
	p.t.Helper()
	Evaluate[chromedp.Void](p, axe(p.t))
	const judge = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations)`
	found := run(p, chromedp.Evaluate[[]violation](judge, chromedp.EvalAwaitPromise))
	var violations []string
	for _, v := range found {
		for _, n := range v.Nodes {
			violations = append(violations, fmt.Sprintf("%s: %s\n\t%s\n\t%s", v.ID, v.Help, n.HTML,
				strings.ReplaceAll(n.FailureSummary, "\n", "\n\t")))
		}
	}
	return violations
}

// violation is what axe-core says about a rule that is broken.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML           string `json:"html"`
		FailureSummary string `json:"failureSummary"`
	} `json:"nodes"`
}
