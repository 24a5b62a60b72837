package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// mistakes are wrong command lines that a new operator types, and what the
// message of each has to say: the thing and the wrong value, what is allowed, and
// the next step. Without next, the next step is to write what is allowed.
var mistakes = []struct{ line, names, allowed, next string }{
	// Words that are no command.
	{"caddy tollgate", `"caddy tollgate"`, "account, audit, backup, check, explain, health", ""},
	{"caddy tollgate completion bash", `unknown command "completion"`, "account, audit, backup", ""},
	{"./xcaddy.sh", "xcaddy.sh", "build, package, run, test, bench", ""},
	{"./xcaddy.sh biuld", `"biuld"`, "build, package, run, test, bench", ""},

	// Flags that there are not, and flags that are missing.
	{"caddy tollgate restore there.backup", "missing flag --config", "The configuration with the store", ""},
	{"./xcaddy.sh run --one-proces", `"--one-proces"`, "--one-process", ""},
	{"./xcaddy.sh run -v", `"-v"`, "--verbose", ""},
	{"./xcaddy.sh test --short", `"--short"`, "--long", ""},

	// Arguments that are missing, or too many: most are values of flags.
	{"caddy tollgate backup", "missing argument <file>", "takes <file>", ""},
	{"./xcaddy.sh build now", `"now"`, "takes none", ""},
	{"./xcaddy.sh package deb", `"deb"`, "takes none", ""},

	// Values that are not allowed.
	{"caddy tollgate backup gate.backup --keep 14", "--keep", "a date in the name of the file", "such as tollgate-2026-11-23.backup"},
	{"caddy tollgate backup gate-2026-11-23.backup --keep many", `"many" for "--keep"`, "allowed: whole numbers", ""},
	{"TOLLGATE_CONTACT=none ./xcaddy.sh run", `TOLLGATE_CONTACT "none"`, "an HTTP or HTTPS URL without a password, or an e-mail address", ""},
	{"TOLLGATE_SIGNUP=yes ./xcaddy.sh run", `TOLLGATE_SIGNUP "yes"`, "off, on or the name of a plan", ""},
	{"TOLLGATE_TIMEZONE=Berlin ./xcaddy.sh run --one-process", `TOLLGATE_TIMEZONE "Berlin"`, "such as Europe/Berlin", ""},

	// Things that there are not, or that there are already.
	{"caddy tollgate backup there.backup", "there.backup", "already exists", "choose another name"},
	{"caddy tollgate restore there.backup --config Caddyfile", "there.backup", "not a complete backup", ""},
	{"caddy tollgate restore there.backup --config Caddyfile --address localhost:2019", "--address", "no meaning here", "--config"},
}

// TestMistakes: each wrong command line fails, and its message names the thing,
// what is allowed and the next step. These settings are refused before a build.
// Scripts have the other commands: see internal/admin/cli/clitest and upstream/cli.
func TestMistakes(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	must(t, os.WriteFile(filepath.Join(filepath.Dir(s.Caddyfile), "there.backup"), nil, 0o600))
	s.Set("HOME", os.Getenv("HOME")) // has what Go compiled
	for _, m := range mistakes {
		said, err := s.Shell(strings.Replace(m.line, "./", stack.Root()+"/", 1))
		if err == nil || strings.Contains(said, "The last lines of") || !strings.Contains(said, m.names) || !strings.Contains(said, m.allowed) || !strings.Contains(said, m.next) {
			t.Errorf("%s\ngot %v, %swant %q, %q, %q before a build", m.line, err, said, m.names, m.allowed, m.next)
		}
	}
}
