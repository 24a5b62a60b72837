package stack

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// OneProcess is the setting of a stack that is one process: Caddy with
// tollgate_upstream in place of reverse_proxy.
const OneProcess = "TOLLGATE_ONE_PROCESS=1"

// Forms runs a test in both forms: it adds the settings of the form to those of
// its stack. TestOneProcessAnswersAlike compares their answers.
func Forms(t *testing.T, test func(t *testing.T, form ...string)) {
	t.Parallel()
	for name, form := range map[string][]string{"two processes": nil, "one process": {OneProcess}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, form...)
		})
	}
}

var (
	proxy   = directive("reverse_proxy")
	handler = directive("tollgate_upstream")
)

// directive matches a directive of a site, with its block.
func directive(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\t` + name + ` (?:.*[^{]|(?:.* )?\{\n(?:\t\t.*\n)*\t\})$`)
}

// withoutProxy returns a Caddyfile with tollgate_upstream in place of
// reverse_proxy, as the example has it. It does not change a Caddyfile that
// has tollgate_upstream.
func withoutProxy(t testing.TB, caddyfile string) string {
	t.Helper()
	if handler.MatchString(caddyfile) {
		return caddyfile
	}
	if !proxy.MatchString(caddyfile) {
		t.Fatalf("the Caddyfile has no reverse_proxy to replace:\n%s", caddyfile)
	}
	example, err := os.ReadFile(filepath.Join(Root(), "examples", "one-process.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	block := handler.FindString(string(example))
	if block == "" {
		t.Fatal("the example has no tollgate_upstream")
	}
	return proxy.ReplaceAllLiteralString(caddyfile, block)
}
