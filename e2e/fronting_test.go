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
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestFronting runs "In front of your own service" of the README and of
// docs/configuration.md as a stranger does: their commands in one shell, in
// their order. A block of the language caddyfile is the file that the page
// names, and a block of the language text is all that the commands above it
// print, with … for any text of the line, and any date and id. TestRun runs "The
// demo" of the README.
func TestFronting(t *testing.T) {
	t.Parallel()
	must(t, stack.Build())
	for page, outputs := range map[string]int{"README.md": 1, "docs/configuration.md": 3} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			front(t, page, outputs)
		})
	}
}

func front(t *testing.T, page string, outputs int) {
	_, section, _ := strings.Cut(read(t, filepath.Join(stack.Root(), page)), "\n## In front of your own service\n")
	section, _, _ = strings.Cut(section, "\n## ")
	dir := checkout(t)
	ports, env := freePorts(t)

	var script strings.Builder
	began := time.Now()
	wanted := map[int]string{}
	n, written := 0, 0
	// Also after a failure, nothing stays.
	script.WriteString("set -um\ntrap 'kill $(jobs -p) >/dev/null 2>&1 || true; bin/caddy stop >/dev/null 2>&1 || true' EXIT\nset -e\n")
	for _, block := range blocks.FindAllStringSubmatch(section, -1) {
		switch language, content := block[1], block[2]; language {
		case "sh":
			n++
			fmt.Fprintf(&script, "echo '@@%d'\n%s", n, content)
		case "text":
			wanted[n] = content
		case "caddyfile":
			written = len(regexp.MustCompile(`(?m)^.*[^\s{}].*$`).FindAllString(content, -1))
			fmt.Fprintf(&script, "cat >gate.Caddyfile <<'END OF FILE'\n%sEND OF FILE\n%s", content, paste)
		}
	}
	if stop := inlineStop.FindStringSubmatch(section); stop != nil {
		fmt.Fprintf(&script, "echo '@@%d'\n%s\n", n+1, stop[1])
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
	t.Logf("%s: the commands took %.1f s; lines of the file, without those of a brace: %d", page, time.Since(began).Seconds(), written)
	if line := regexp.MustCompile(`key ci sha256:\w+`).FindString(string(out)); !strings.Contains(read(t, filepath.Join(dir, "gate.Caddyfile")), line) {
		t.Errorf("the file has another key than %s", line)
	}
	printed := logLines.ReplaceAllString(string(out), "")
	for i, want := range wanted {
		_, got, _ := strings.Cut(printed, fmt.Sprintf("@@%d\n", i))
		got, _, _ = strings.Cut(got, "@@")
		if !regexp.MustCompile(`\A` + patternOf(want, changing).String() + `\s*\z`).MatchString(got) {
			t.Errorf("block %d printed\n%s\nwant\n%s", i, got, want)
		}
	}
	if len(wanted) != outputs {
		t.Errorf("compared %d outputs, want the %d of the page", len(wanted), outputs)
	}
	for name, text := range map[string]string{
		"the output": string(out), "caddy.log": read(t, filepath.Join(dir, "caddy.log")),
	} {
		if strings.Contains(text, "old-3f9a1c77d2e84b60") {
			t.Errorf("%s has a token", name)
		}
	}
}

// paste writes the line of a new key into the file, as a reader does.
const paste = `[ -z "${KEY-}" ] || sed -i "s/sha256:.*/sha256:$(printf %s "$KEY" | sha256sum | cut -d' ' -f1)/" gate.Caddyfile
`

// inlineStop is the command in a sentence that ends what a section has started.
var inlineStop = regexp.MustCompile("`(bin/caddy stop; [^`]+)`")

// checkout returns a directory with the built programs in bin. In the long
// tests, it is a clean clone that builds them.
func checkout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if !storetest.Long() {
		must(t, os.Symlink(filepath.Join(stack.Root(), "bin"), filepath.Join(dir, "bin")))
		return dir
	}
	build := exec.CommandContext(t.Context(), "sh", "-euc", `git clone --quiet "$0" . && unset TOLLGATE_BUILT && ./xcaddy.sh build`, stack.Root())
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a clean clone: %v\n%s", err, out)
	}
	return dir
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
		"127.0.0.1:3000", service, "localhost:8080", site, "\n:8080 {", "\n:"+free[1]+" {", "http://:8081", control,
		"git clone https://github.com/caddy-tollgate/tollgate && cd tollgate && ./xcaddy.sh build\n", "", // checkout has done it
		// The service may listen after the first call.
		">service.log 2>&1 &\n", ">service.log 2>&1 &\nuntil curl -s -o service.txt "+service+"; do kill -0 $!; sleep 0.1; done\n",
		// Midnight must not come between the calls.
		"\t\tsecret {env", "\t\ttimezone "+stack.CalmZone()+"\n\t\tsecret {env",
		"{\n\tlog {", "{\n\tadmin "+admin+"\n\tlog {", "{\n\ttollgate {", "{\n\tadmin "+admin+"\n\ttollgate {",
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
var changing = []form{
	{on: regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)`)},
	{on: regexp.MustCompile(`\d{4}-\d\d-\d\d`)},
	{on: regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)},
	{on: regexp.MustCompile(`\b\d{10}\b`)}, // seconds since 1970
	{on: regexp.MustCompile(`\bkey_\w{16}\b`)},
	{on: regexp.MustCompile(`\b\d+ s\b`)},
	{on: regexp.MustCompile(` +`)},
	{on: regexp.MustCompile(`…`), like: regexp.MustCompile(`.*`)},
}

// form is what may be in the place of a text: what the text itself matches, or
// like.
type form struct{ on, like *regexp.Regexp }

// patternOf is an output of a page as a regular expression.
func patternOf(text string, changing []form) *regexp.Regexp {
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
