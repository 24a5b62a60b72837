package e2e_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// walked are the pages with commands, and the tests that run them.
var walked = map[string]string{
	"README.md":             "TestRun, TestFronting",
	"docs/configuration.md": "TestFronting, TestPages",
	"docs/control.md":       "TestControlPage",
	"docs/customers.md":     "TestOperations, and TestDebian of the directory packaging",
	"docs/operations.md":    "TestOperations, and the tests of the directory packaging",
	"docs/recipes.md":       "TestImportRecipes of the package internal/admin/cli",
	"docs/requests.md":      "TestPages",
	"docs/scaling.md":       "TestPages",
}

// blocks are the code blocks of a page of the documentation, with their
// language. Commands are in blocks of the language sh, or with their output in
// blocks of the language console.
var blocks = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```")

// command recognises a command in a block of another language.
var command = regexp.MustCompile(`(?m)^(\$ |export |caddy |upstream |bin/|\./xcaddy|xcaddy |curl |tar |od |apt |systemctl |buildah |go )`)

// TestCommandsOfPages checks that a test runs the commands of each page.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "packaging/*.md"} {
		found, err := filepath.Glob(filepath.Join(stack.Root(), pattern))
		must(t, err)
		pages = append(pages, found...)
	}
	var got []string
	for _, path := range pages {
		page, err := filepath.Rel(stack.Root(), path)
		must(t, err)
		for _, block := range blocks.FindAllStringSubmatch(read(t, path), -1) {
			switch language, text := block[1], block[2]; language {
			case "sh", "console":
				got = append(got, page)
			default:
				if command.MatchString(text) {
					t.Errorf("%s: these commands are not in a block of the language sh or console:\n%s", page, text)
				}
			}
		}
	}
	slices.Sort(got)
	if want := slices.Sorted(maps.Keys(walked)); !slices.Equal(slices.Compact(got), want) {
		t.Errorf("the pages with commands are %q, want %q", slices.Compact(got), want)
	}
}

// TestPages runs the blocks sh of pages, each page in one shell, and checks
// what they print.
func TestPages(t *testing.T) {
	t.Parallel()
	must(t, stack.Build())
	for _, page := range []struct {
		name, section string   // all sections without one
		edit          []string // old and new strings of the commands
		before        string   // commands of the test
		after         string
		wants         []string // parts of the output
		redis         bool
	}{
		{
			name: "docs/configuration.md", section: "Build Caddy with other modules",
			edit:  []string{"go tool xcaddy build", "xcaddy build"},
			after: "built/caddy list-modules",
			wants: []string{"http.handlers.tollgate", "tollgate.stores.badger", "tollgate.stores.redis"},
		},
		{
			name: "docs/requests.md",
			edit: []string{"http://localhost:8080", "$TOLLGATE_ADDRESS", "http://127.0.0.1:8081", "http://$TOLLGATE_CONTROL", `"email":"…","password":"…"`, `"email":"ada@example.com","password":"seven green bicycles sleep"`},
			before: "bin/upstream serve\nbin/caddy run --config shipped.Caddyfile\n" +
				"echo 'seven green bicycles sleep' | bin/upstream account add ada@example.com --plan starter\n",
			wants: []string{`{"token":"tgl_`, `{"keys":[{"kty":"EC",`},
		},
		{
			name: "docs/scaling.md",
			edit: []string{"'<32 characters or more>'", "$SECRET", "'<password>'", "$PASSWORD", "http://api.example.com:8080", "$SITE",
				"10.0.0.5", "$SERVER"},
			after: "bin/caddy tollgate health\n",
			wants: []string{"ready"},
			redis: true,
		},
	} {
		t.Run(page.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range []string{"bin", "examples"} {
				must(t, os.Symlink(filepath.Join(stack.Root(), name), filepath.Join(dir, name)))
			}
			must(t, os.WriteFile(filepath.Join(dir, "shipped.Caddyfile"), []byte(stack.Shipped(t)), 0o600))
			must(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
			ports := stack.FreePorts(t, 4)
			env := append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "ROOT="+stack.Root(),
				"TOLLGATE_ADDRESS=http://127.0.0.1:"+ports[0], "TOLLGATE_CONTROL=127.0.0.1:"+ports[1], "CADDY_ADMIN=127.0.0.1:"+ports[2],
				"TOLLGATE_UPSTREAM=127.0.0.1:"+ports[3], "TOLLGATE_SECRET="+stack.Secret, "TOLLGATE_RATES=embedded")
			if page.redis {
				server := redistest.Start(t, "requirepass secret")
				env = append(env, "SECRET="+stack.Secret, "PASSWORD=secret", "SERVER="+server.Addr(), "SITE=http://127.0.0.1:"+ports[0])
			}
			out := runPage(t, dir, env, page.before, commandsOf(t, page.name, page.section, page.edit...), page.after)
			for _, want := range page.wants {
				if !strings.Contains(out, want) {
					t.Errorf("the page prints\n%s\nwant %q", out, want)
				}
			}
		})
	}
}

// commandsOf returns the blocks sh of a page or of one section, with each old
// string replaced by the new string after it. Every old string must occur.
func commandsOf(t *testing.T, page, section string, oldnew ...string) (commands string) {
	t.Helper()
	text := read(t, filepath.Join(stack.Root(), page))
	if section != "" {
		_, text, _ = strings.Cut(text, "\n## "+section+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
	}
	for _, block := range blocks.FindAllStringSubmatch(text, -1) {
		if block[1] == "sh" {
			commands += block[2]
		}
	}
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(commands, oldnew[i]) {
			t.Errorf("%s has no command with %q", page, oldnew[i])
		}
		commands = strings.ReplaceAll(commands, oldnew[i], oldnew[i+1])
	}
	return commands
}

// server recognises a command that runs until it is stopped.
var server = regexp.MustCompile(`(?m)^bin/(caddy run|upstream serve)\b.*$`)

// beforePage makes a shell end what it started, and wait until a server
// answers. xcaddy is the tool of the module, run in the checkout.
const beforePage = `
trap 'kill $(jobs -p) >&- 2>&- || true; wait' EXIT
await() { until "$@" >out.log 2>&1; do kill -0 $!; sleep 0.1; done; }
xcaddy() {
	mkdir -p built
	out=$PWD/built/caddy
	modules=file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
	(cd "$ROOT" && GOPROXY=$modules GONOSUMDB='*' CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath' go tool xcaddy "$@" --output "$out") >xcaddy.log 2>&1 || {
		cat xcaddy.log
		return 1
	}
}
`

// runPage runs commands in one shell, and returns what they print. Servers run
// in the background.
func runPage(t *testing.T, dir string, env []string, commands ...string) string {
	t.Helper()
	script := server.ReplaceAllStringFunc(strings.Join(commands, ""), func(line string) string {
		if strings.HasPrefix(line, "bin/upstream") {
			return line + " >upstream.log 2>&1 &\nawait curl -sf http://$TOLLGATE_UPSTREAM/healthz"
		}
		return line + " >caddy.log 2>&1 &\nawait bin/caddy tollgate health"
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euc", beforePage+script)
	shell.Dir, shell.Env, shell.WaitDelay = dir, env, 10*time.Second
	// After a timeout, nothing stays.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\nran%s", err, out, script)
	}
	return string(out)
}
