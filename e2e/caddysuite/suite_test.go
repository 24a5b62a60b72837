//go:build long

package caddysuite_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// differs are the tests whose answer the gate changes, with the rule that wants
// it.
var differs = map[string]string{
	"TestPHPFastCGIDirectoryRedirectStaysOnOrigin": "the whole site: %2F, %5C and .. segments are ambiguous, so the answer is 400 bad_path",
}

// suite is the program of the tests, and the folder that it runs in. Certificates
// stay in its home: a request can come before the first one is made.
type suite struct{ program, folder, home string }

// TestCaddy runs the tests. They come from the module cache. Their file
// caddyfile_adapt_test.go is left out: it starts no server, and imports a package
// that is internal to Caddy.
func TestCaddy(t *testing.T) {
	t.Parallel()
	s := build(t)
	failed := s.run(t, ".")
	for name := range differs {
		if !slices.Contains(failed, name) {
			t.Errorf("%s passes: it does not differ any more", name)
		}
	}
	unexpected := slices.DeleteFunc(failed, func(name string) bool { return differs[name] != "" })
	// Some of them have a limit of seconds, which a busy machine exceeds.
	for try := 0; try < 3 && len(unexpected) > 0; try++ {
		t.Logf("once more: %q", unexpected)
		unexpected = s.run(t, "^("+strings.Join(unexpected, "|")+")$")
	}
	if len(unexpected) > 0 {
		t.Errorf("with the gate in front, these tests fail: %q", unexpected)
	}
}

// build makes the program, in a module of its own.
func build(t *testing.T) suite {
	t.Helper()
	dir := t.TempDir()
	tests := filepath.Join(dir, "caddytest")
	caddy := strings.TrimSpace(command(t, ".", "go", "list", "-m", "-f", "{{.Dir}}", "github.com/caddyserver/caddy/v2"))
	must(t, os.CopyFS(tests, os.DirFS(filepath.Join(caddy, "caddytest"))))
	must(t, filepath.WalkDir(tests, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text := read(t, path)
		text = strings.ReplaceAll(text, `"github.com/caddyserver/caddy/v2/caddytest"`, `"caddysuite/caddytest"`)
		if filepath.Base(path) == "caddytest.go" {
			const load = "InitServer(rawConfig string, configType string) {\n"
			if !strings.Contains(text, load) {
				t.Fatal("the tests load a configuration in another way now")
			}
			text = strings.Replace(text, load, load+"\trawConfig, configType = inject(rawConfig, configType)\n", 1)
			text = strings.ReplaceAll(text, "RequestTimeout: 5 * time.Second", "RequestTimeout: time.Minute") // on a busy machine
		}
		must(t, os.Chmod(path, 0o600))
		return os.WriteFile(path, []byte(text), 0o600)
	}))
	must(t, os.Remove(filepath.Join(tests, "integration", "caddyfile_adapt_test.go")))
	must(t, os.WriteFile(filepath.Join(tests, "inject.go"), []byte(read(t, "testdata/inject.go.txt")), 0o600))
	root, err := filepath.Abs("../..")
	must(t, err)
	module := regexp.MustCompile(`(?m)^module (.*)$`).ReplaceAllString(read(t, filepath.Join(root, "go.mod")), "module caddysuite\nrequire $1 v0.0.0\nreplace $1 => "+root)
	must(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte(read(t, filepath.Join(root, "go.sum"))), 0o600))
	s := suite{filepath.Join(dir, "integration.test"), filepath.Join(tests, "integration"), t.TempDir()}
	// The race detector, because its builds of Caddy are in the cache.
	command(t, dir, "go", "test", "-mod=mod", "-race", "-c", "-o", s.program, "./caddytest/integration")
	return s
}

// run runs the tests of a pattern and returns the names of those that fail. The
// ports of these tests are fixed, so they get a network of their own.
func (s suite) run(t *testing.T, pattern string) (failed []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "unshare", "--net", "--map-root-user", "sh", "-c", `ip link set lo up && exec "$0" -test.v -test.run "$1"`, s.program, pattern)
	c.Dir = s.folder
	c.Env = append(os.Environ(), "HOME="+s.home, "XDG_CONFIG_HOME="+s.home, "XDG_DATA_HOME="+s.home, "GATE="+filepath.Join(s.home, "gate"))
	output, err := c.CombinedOutput()
	ended := regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`).FindAllSubmatch(output, -1)
	if len(ended) == 0 || bytes.Contains(output, []byte("DATA RACE")) {
		t.Fatalf("%v: %s", err, output)
	}
	passed := 0
	for _, test := range ended {
		switch name := string(test[2]); string(test[1]) {
		case "PASS":
			passed++
		case "FAIL":
			failed = append(failed, name)
		default:
			t.Errorf("%s was skipped", name)
		}
	}
	t.Logf("%d tests passed, %d failed", passed, len(failed))
	if passed == 0 && len(failed) < len(ended) || pattern == "." && passed < 90 {
		t.Fatalf("too few tests ran: %s", output)
	}
	return failed
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func command(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, arguments...)
	c.Dir = dir
	output, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(arguments, " "), err, output)
	}
	return string(output)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
