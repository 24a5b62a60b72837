package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestFronting runs "In front of your own service" of docs/configuration.md as a
// stranger does: its commands in one shell, in their order. A block of the language caddyfile is the file that
// the page names, and a block of the language text is the output of the
// commands above it, with … for any text of the line and any date.
func TestFronting(t *testing.T) {
	t.Parallel()
	_, page, _ := strings.Cut(read(t, filepath.Join(stack.Root(), "docs", "configuration.md")), "\n## In front of your own service\n")
	page, _, _ = strings.Cut(page, "\n## ")
	must(t, stack.Build())
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(stack.Root(), "bin"), filepath.Join(dir, "bin")))
	ports, env := freePorts(t)

	var script strings.Builder
	wanted := map[int]string{}
	n := 0
	// Also after a failure, nothing stays.
	script.WriteString("set -um\ntrap 'kill $(jobs -p) >/dev/null 2>&1 || true; bin/caddy stop >/dev/null 2>&1 || true' EXIT\nset -e\n")
	for _, block := range blocks.FindAllStringSubmatch(page, -1) {
		switch language, content := block[1], block[2]; language {
		case "sh":
			if strings.HasPrefix(content, "./xcaddy.sh build") {
				continue // stack.Build
			}
			n++
			fmt.Fprintf(&script, "echo '@@%d'\n%s", n, content)
		case "text":
			wanted[n] = content
		case "caddyfile":
			fmt.Fprintf(&script, "cat >gate.Caddyfile <<'END OF FILE'\n%sEND OF FILE\n", content)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", ports.Replace(script.String()))
	shell.Dir, shell.Env = dir, append(os.Environ(), env...)
	shell.WaitDelay = 10 * time.Second
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s\n%s", err, out, read(t, filepath.Join(dir, "caddy.log")))
	}
	printed := logLines.ReplaceAllString(string(out), "")
	for i, want := range wanted {
		_, got, _ := strings.Cut(printed, fmt.Sprintf("@@%d\n", i))
		got, _, _ = strings.Cut(got, "@@")
		if !patternOf(want).MatchString(got) {
			t.Errorf("block %d printed\n%s\nwant\n%s", i, got, want)
		}
	}
	if len(wanted) < 3 {
		t.Errorf("compared %d outputs, want all of the page", len(wanted))
	}
	for name, text := range map[string]string{
		"the output": string(out), "caddy.log": read(t, filepath.Join(dir, "caddy.log")),
	} {
		if strings.Contains(text, "old-3f9a1c77d2e84b60") {
			t.Errorf("%s has a token", name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// freePorts replaces the addresses of the page.
func freePorts(t *testing.T) (ports *strings.Replacer, env []string) {
	t.Helper()
	free := stack.FreePorts(t, 4)
	service, site, control, admin := "127.0.0.1:"+free[0], "localhost:"+free[1], "http://:"+free[2], "127.0.0.1:"+free[3]
	ports = strings.NewReplacer(
		"127.0.0.1:3000", service, "localhost:8080", site, "http://:8081", control,
		// The service may listen after the first call.
		"\nDEMO=$!\n", "\nDEMO=$!\nuntil curl -s -o service.txt "+service+"; do kill -0 $DEMO; sleep 0.1; done\n",
		// Midnight must not come between the calls.
		"\t\tsecret {env", "\t\ttimezone "+stack.CalmZone()+"\n\t\tsecret {env",
		"{\n\tlog default {", "{\n\tadmin "+admin+"\n\tlog default {",
		"bin/caddy tollgate", "bin/caddy tollgate --address "+admin,
		"bin/caddy stop", "bin/caddy stop --address "+admin,
		"bin/caddy reload", "bin/caddy reload --address "+admin,
	)
	return ports, []string{"HOME=" + t.TempDir()}
}

// logLines are those that Caddy's commands write to standard error.
var logLines = regexp.MustCompile(`(?m)^{"level":.*\n`)

// changing is what differs from run to run in the output of a command: times,
// dates, ids of keys, the width of columns, and … for any text of the line.
var changing = []struct{ on, like *regexp.Regexp }{
	{on: regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`)},
	{on: regexp.MustCompile(`\d{4}-\d\d-\d\d`)},
	{on: regexp.MustCompile(`\b\d{10}\b`)}, // seconds since 1970
	{on: regexp.MustCompile(`\bkey_\w{16}\b`)},
	{on: regexp.MustCompile(`\b\d+ s\b`)},
	{on: regexp.MustCompile(` +`)},
	{on: regexp.MustCompile(`…`), like: regexp.MustCompile(`.*`)},
}

// patternOf is an output of a page as a regular expression.
func patternOf(text string) *regexp.Regexp {
	pattern, rest := "(?m)^", strings.TrimSpace(text)
	for rest != "" {
		first, length, like := len(rest), 0, ""
		for _, c := range changing {
			if found := c.on.FindStringIndex(rest); found != nil && found[0] < first {
				first, length, like = found[0], found[1]-found[0], cmp.Or(c.like, c.on).String()
			}
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(rest[:first]), "\n", "\r?\n") + like
		rest = rest[first+length:]
	}
	return regexp.MustCompile(pattern)
}
