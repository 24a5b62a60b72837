package stack

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// OneProcess is the setting of a stack that is one process: Caddy with
// tollgate_upstream in place of reverse_proxy. As an environment variable of
// the tests, it applies to all stacks.
const OneProcess = "TOLLGATE_ONE_PROCESS=1"

func inOneProcess() bool { return os.Getenv("TOLLGATE_ONE_PROCESS") == "1" }

// SkipInOneProcess skips a test if all stacks are one process. The reason says
// why the test runs in the other form only.
func SkipInOneProcess(t testing.TB, reason string) {
	t.Helper()
	if inOneProcess() {
		t.Skip("not in one process: " + reason)
	}
}

// needUpstream fails a test that starts or stops the upstream of a stack
// that is one process.
func (s *Stack) needUpstream() {
	s.t.Helper()
	if s.oneProcess {
		s.t.Fatal("the upstream is no process of its own: call SkipInOneProcess")
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
