package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/chromedp/chromedp"
)

// axeVersion is pinned: a later one may find more, and then the pages are
// mended together with this line.
const axeVersion = "4.14.1"

// axe is the source of axe-core, installed on first use by npm into the
// project's cache. It is a tool of the tests and no part of the product.
var axe = sync.OnceValues(func() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	cache := filepath.Join(filepath.Dir(file), "..", "..", "..", ".cache", "axe-"+axeVersion)
	script := filepath.Join(cache, "node_modules", "axe-core", "axe.min.js")
	if _, err := os.Stat(script); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		out, err := exec.CommandContext(ctx, "npm", "install", "--prefix", cache, "--no-save", "--ignore-scripts",
			"--no-audit", "--no-fund", "axe-core@"+axeVersion).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("installing axe-core by npm: %w\n%s", err, out)
		}
	}
	source, err := os.ReadFile(script)
	return string(source), err
})

// Violations returns what axe-core finds wrong with the page: its rules
// for WCAG 2.2 up to level AA, and its best practices.
func (p *Page) Violations() []string {
	p.t.Helper()
	source, err := axe()
	if err != nil {
		p.t.Fatal(err)
	}
	Evaluate[chromedp.Void](p, source)
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
