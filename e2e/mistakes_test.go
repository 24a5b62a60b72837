package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// mistakes are wrong command lines that a new operator types, and what the
// message of each has to say: the thing and the wrong value, what is allowed, and
// the next step. Without next, the next step is to write what is allowed.
var mistakes = []struct{ line, names, allowed, next string }{
	// Words that are no command.
	{"caddy tollgate", `"caddy tollgate"`, "account, audit, backup, check, explain, health", ""},
	{"caddy tollgate acount list", `unknown command "acount"`, "did you mean account?", ""},
	{"caddy tollgate accounts", `unknown command "accounts"`, "did you mean account?", ""},
	{"caddy tollgate keys acc_1", `unknown command "keys"`, "did you mean key?", ""},
	{"caddy tollgate plan", `unknown command "plan"`, "did you mean plans?", ""},
	{"caddy tollgate status", `unknown command "status"`, "did you mean health?", ""},
	{"caddy tollgate rename starter basic", `unknown command "rename"`, "account, audit, backup", ""},
	{"caddy tollgate portal acc_1", `unknown command "portal"`, "account, audit, backup", ""},
	{"caddy tollgate import accounts.jsonl", `unknown command "import"`, "account, audit, backup", ""},
	{"caddy tollgate completion bash", `unknown command "completion"`, "account, audit, backup", ""},
	{"caddy tollgate account", `"caddy tollgate account"`, "delete, import, link, list, set, show", ""},
	{"caddy tollgate account create acc_2 --plan starter", `unknown command "create"`, "did you mean set?", ""},
	{"caddy tollgate account add acc_2 --plan starter", `unknown command "add"`, "did you mean set?", ""},
	{"caddy tollgate account remove acc_1 --yes", `unknown command "remove"`, "did you mean delete?", ""},
	{"caddy tollgate account disable acc_1", `unknown command "disable"`, "did you mean set?", ""},
	{"caddy tollgate account set-plan acc_1 starter", `unknown command "set-plan"`, "did you mean set?", ""},
	{"caddy tollgate key delete acc_1 ci", `unknown command "delete"`, "did you mean revoke?", ""},
	{"caddy tollgate limit delete acc_1 convert --period month", `unknown command "delete"`, "did you mean clear?", ""},
	{"caddy tollgate usage acc_1", `unknown command "acc_1"`, "credit, export, refused, reset, show, summary, top", ""},
	{"upstream", "command", "account, backup, rates, serve, version", ""},
	{"upstream srve", `unknown command "srve"`, "did you mean serve?", ""},
	{"upstream start", `unknown command "start"`, "account, backup, rates, serve, version", ""},
	{"upstream account", `upstream account`, "add, delete, import, list, reset-link, set, set-password, show", ""},
	{"upstream account create bob@example.com --plan starter", `unknown command "create"`, "did you mean add?", ""},
	{"upstream account remove ada@example.com --yes", `unknown command "remove"`, "did you mean delete?", ""},
	{"upstream rates show", `unknown command "show"`, "import, refresh, status", ""},
	{"./xcaddy.sh", "xcaddy.sh", "build, package, run, test, bench", ""},
	{"./xcaddy.sh biuld", `"biuld"`, "build, package, run, test, bench", ""},

	// Flags that there are not, and flags that are missing.
	{"caddy tollgate health --adress localhost:2019", "unknown flag: --adress", "did you mean --address?", ""},
	{"caddy tollgate account set acc_1 --disable", "unknown flag: --disable", "did you mean --disabled?", ""},
	{"caddy tollgate account set acc_1 -plan starter", "-plan", "did you mean --plan?", ""},
	{"caddy tollgate key create acc_1 --name b --expires 30d", "unknown flag: --expires", "--name, --reason, --ttl", ""},
	{"caddy tollgate key create acc_1 --name b --abilities convert", "unknown flag: --abilities", "--ability", ""},
	{"caddy tollgate jwks --output x", "unknown flag: --output", "--json", ""},
	{"caddy tollgate account set acc_1", `missing flag of "caddy tollgate account set"`, "--plan, --disabled, --label", ""},
	{"caddy tollgate key create acc_1", "missing flag --name", "The key's name", ""},
	{"caddy tollgate usage export", "missing flag --month", "2026-11", ""},
	{"caddy tollgate check", "missing flag --config", "The configuration to check", ""},
	{"caddy tollgate restore there.backup", "missing flag --config", "The configuration with the store", ""},
	{"upstream account add bob@example.com", "missing flag --plan", "name of a plan", ""},
	{"upstream account list --search ada", "unknown flag: --search", "--json", ""},
	{"upstream account add bob@example.com --plan starter --password hunter2", "unknown flag: --password", "--generate", ""},
	{"upstream account set ada@example.com", `missing flag of "upstream account set"`, "--plan, --disabled, --operator", ""},
	{"upstream serve --port 9000", "unknown flag: --port", "--upstream", ""},
	{"upstream serve --secret hunter2", "unknown flag: --secret", "--secret-file", ""},
	{"upstream version --json", "unknown flag: --json", "--help", ""},
	{"./xcaddy.sh run --one-proces", `"--one-proces"`, "--one-process", ""},
	{"./xcaddy.sh run -v", `"-v"`, "--verbose", ""},
	{"./xcaddy.sh test --short", `"--short"`, "--long", ""},

	// Arguments that are missing, or too many: most are values of flags.
	{"caddy tollgate account show", "missing argument <account>", "takes <account>", ""},
	{"caddy tollgate key revoke acc_1", "missing argument <key", "takes <account> <key", ""},
	{"caddy tollgate limit set convert 5", "missing argument <number>|unlimited", "takes <account> <endpoint>|all <number>|unlimited", ""},
	{"caddy tollgate usage credit acc_1 convert", "missing argument <calls>", "takes <account> <endpoint> <calls>", ""},
	{"caddy tollgate explain /api/currencies", "missing argument <target>", "takes <method> <target>", ""},
	{"caddy tollgate backup", "missing argument <file>", "takes <file>", ""},
	{"caddy tollgate account set acc_1 starter", `unexpected argument "starter"`, "takes <account>", "--plan"},
	{"caddy tollgate account set acc_1 --disabled false", `unexpected argument "false"`, "takes <account>", "write --disabled=false"},
	{"caddy tollgate key create acc_1 ci", `unexpected argument "ci"`, "takes <account>", "--name"},
	{"caddy tollgate limit set acc_1 convert 5 month", `unexpected argument "month"`, "takes <account> <endpoint>|all <number>|unlimited", "--period"},
	{"caddy tollgate usage refused acc_1", `unexpected argument "acc_1"`, "takes no arguments", "--account"},
	{"caddy tollgate usage top 7", `unexpected argument "7"`, "takes no arguments", "--days"},
	{"caddy tollgate usage reset acc_1 convert", `unexpected argument "convert"`, "takes <account>", "--endpoint"},
	{"caddy tollgate usage export 2026-10", `unexpected argument "2026-10"`, "takes no arguments", "--month"},
	{"caddy tollgate audit acc_1", `unexpected argument "acc_1"`, "takes no arguments", "--account"},
	{"caddy tollgate explain GET /api/currencies acc_1", `unexpected argument "acc_1"`, "takes <method> <target>", "--account"},
	{"caddy tollgate check Caddyfile", `unexpected argument "Caddyfile"`, "takes no arguments", "--config"},
	{"upstream account add", `"upstream account add"`, "takes one e-mail address", ""},
	{"upstream account set-password ada@example.com hunter2", "unexpected argument", "takes <account>", "--generate"},
	{"upstream serve --signup gold", `unexpected argument "gold"`, "takes no arguments", "write --signup=gold"},
	{"upstream rates import", "missing argument <file>", "takes <file>", ""},
	{"./xcaddy.sh build now", `"now"`, "takes none", ""},
	{"./xcaddy.sh package deb", `"deb"`, "takes none", ""},

	// Values that are not allowed.
	{"caddy tollgate account set acc_1 --plan gold", `unknown plan "gold"`, "--plan must be one of free, starter, business", ""},
	{"caddy tollgate account set 'acc 9' --plan starter", "no account with this id", "each a letter, a digit or one of", ""},
	{"caddy tollgate key create acc_1 --name b --ability convert,usage", `ability "convert,usage"`, "convert, currencies, history, rates, usage", ""},
	{"caddy tollgate key create acc_1 --name b --ttl 30", `--ttl "30"`, "such as 90m, 720h or 30d", ""},
	{"caddy tollgate key create acc_1 --name b --ttl=", "--ttl has no value", "omit it", ""},
	{"caddy tollgate key create acc_1 --name b --limit 100", `--limit "100"`, "<endpoint>|all <number> [<period>]", ""},
	{"caddy tollgate key create acc_1 --name b --limit 'convert 100 week'", `period "week" of --limit`, "second, minute, hour, day, month", ""},
	{"caddy tollgate key create acc_1 --name b --limit 'convert -5 day'", `--limit "-5"`, "a whole number from 0", ""},
	{"caddy tollgate key create acc_1 --name b --from localhost", `"localhost"`, "203.0.113.0/24", ""},
	{"caddy tollgate key list acc_1 --kind logins", `"logins" for "--kind"`, "key, login", ""},
	{"caddy tollgate limit set acc_1 convert -5", "number -5", "<number>|unlimited", "no number is negative"},
	{"caddy tollgate limit set acc_1 convert 1,000", `"1,000"`, "a whole number from 0 to 10^15, or unlimited", ""},
	{"caddy tollgate limit set acc_1 convert 5 --period monthly", `"monthly" for "--period"`, "second, minute, hour, day, month", ""},
	{"caddy tollgate limit set acc_1 convert 5 --until tomorrow", `--until "tomorrow"`, "such as 2026-12-31", ""},
	{"caddy tollgate limit set acc_1 convert 5 --until 2020-01-01", "expiry", "must be in the future", "choose a later one"},
	{"caddy tollgate usage credit acc_1 convert -5", "number -5", "<endpoint> <calls>", "no number is negative"},
	{"caddy tollgate usage show acc_1 --days -7", `"-7" for "--days"`, "whole numbers from 1 to 90", ""},
	{"caddy tollgate usage export --month november", `--month "november"`, "such as 2026-11", ""},
	{"caddy tollgate usage export --month 2026-10 --format xlsx", `"xlsx" for "--format"`, "csv, json", ""},
	{"caddy tollgate audit --since yesterday", `--since "yesterday"`, "such as 2026-11-01", ""},
	{"caddy tollgate explain GET api/convert", `<target> "api/convert"`, "begins with /", ""},
	{"caddy tollgate backup gate.backup --keep 14", "--keep", "a date in the name of the file", "such as tollgate-2026-11-23.backup"},
	{"caddy tollgate backup gate-2026-11-23.backup --keep many", `"many" for "--keep"`, "allowed: whole numbers", ""},
	{"caddy tollgate health --address localhost", `"localhost"`, "such as localhost:2019", ""},
	{"upstream account add ada --plan starter --generate", "invalid <email>", "name@example.com", ""},
	{"upstream account add bob@example.com --plan gold --generate", `unknown plan "gold"`, "--plan must be one of free, starter, business", ""},
	{"echo short | upstream account add bob@example.com --plan starter", "invalid password", "at least 15 characters", ""},
	{"upstream account add bob@example.com --plan starter </dev/null", "password", "its first line is the password", ""},
	{"upstream serve --contact none", `--contact "none"`, "an HTTP or HTTPS URL without a password, or an e-mail address", ""},
	{"upstream serve --upstream 9000", `--upstream "9000"`, "host:port", ""},
	{"upstream serve --timezone Berlin", `--timezone "Berlin"`, "such as Europe/Berlin", ""},
	{"upstream serve --rates embeded", "--rates", "an HTTP or HTTPS URL, embedded or none", ""},
	{"upstream serve --signup=yes", `--signup "yes"`, "off, on or the name of a plan", ""},
	{"TOLLGATE_SECRET=short upstream serve", "secret", "32 characters", "TOLLGATE_SECRET"},
	{"TOLLGATE_CONTACT=none ./xcaddy.sh run", `TOLLGATE_CONTACT "none"`, "an HTTP or HTTPS URL without a password, or an e-mail address", ""},
	{"TOLLGATE_SIGNUP=yes ./xcaddy.sh run", `TOLLGATE_SIGNUP "yes"`, "off, on or the name of a plan", ""},
	{"TOLLGATE_TIMEZONE=Berlin ./xcaddy.sh run --one-process", `TOLLGATE_TIMEZONE "Berlin"`, "such as Europe/Berlin", ""},

	// Things that there are not, or that there are already.
	{"caddy tollgate account show acc_9", "no account with this id or label", "account list", ""},
	{"caddy tollgate limit set acc_9 convert 5", "no account with this id or label", "account list", ""},
	{"caddy tollgate key create acc_1 --name ci", "already has this name", "choose another", "revoke that key"},
	{"caddy tollgate key revoke acc_1 cj", "no key with this id or name", "did you mean ci?", ""},
	{"caddy tollgate key rotate acc_1 tgk_x", "no key with this id or name", "use ci", "key find"},
	{"caddy tollgate key set acc_1 key_0123456789abcdef --name x", "no such live key", "the list of its keys", ""},
	{"caddy tollgate key find </dev/null", "standard input", "a token nor its SHA-256", "send one line"},
	{"echo tgk_123 | caddy tollgate key find", "the token", "mistyped or cut off", ""},
	{"caddy tollgate key import nowhere.jsonl", "nowhere.jsonl", "no such file", ""},
	{"caddy tollgate account import wrong.jsonl", `unknown member "acount"`, "allowed: account, plan", ""},
	{"caddy tollgate limit set acc_1 convrt 5", `Unknown endpoint "convrt"`, "Use currencies, convert", ""},
	{"caddy tollgate limit clear acc_1 currencies", "no override of this endpoint and period", "the list of its limits", ""},
	{"caddy tollgate usage reset acc_1 --endpoint convrt", `Unknown endpoint "convrt"`, "Use currencies, convert", ""},
	{"caddy tollgate explain GET /api/currencies --account acc_1 --key cj", "no key with this id or name", "did you mean ci?", ""},
	{"caddy tollgate backup there.backup", "there.backup", "already exists", "choose another name"},
	{"caddy tollgate restore there.backup --config Caddyfile", "there.backup", "not a complete backup", ""},
	{"caddy tollgate restore there.backup --config Caddyfile --address localhost:2019", "--address", "no meaning here", "--config"},
	{"caddy tollgate check --config nowhere", "nowhere", "no such file", ""},
	{"caddy tollgate plans --address 127.0.0.1:1", "127.0.0.1:1", "the gate is unreachable", "set --address"},
	{"upstream account add ada@example.com --plan starter --generate", "this e-mail address exists", "account set", ""},
	{"upstream account show bob@example.com", "no such account", "account list", ""},
	{"upstream account import nowhere.jsonl", "nowhere.jsonl", "no such file", ""},
	{"upstream serve --logo nowhere.png", "nowhere.png", "no such file", ""},
	{"upstream backup there.backup", "there.backup", "already exists", "choose another name"},
	{"TOLLGATE_SECRET= upstream serve --data empty", "no secret", "TOLLGATE_SECRET", "empty/secret"},
}

// TestMistakes: each wrong command line fails, and its message names the thing,
// what is allowed and the next step. These settings are refused before a build.
func TestMistakes(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	newAccount(t, s, "ada@example.com", "starter")
	s.Tollgate("account", "set", "acc_1", "--plan", "starter")
	newKey(t, s, "acc_1", "ci")
	for name, content := range map[string]string{"wrong.jsonl": `{"acount":"x"}`, "there.backup": ""} {
		must(t, os.WriteFile(filepath.Join(filepath.Dir(s.Caddyfile), name), []byte(content), 0o600))
	}
	s.Set("HOME", os.Getenv("HOME")) // has what Go compiled
	results := make([]string, len(mistakes))
	var group sync.WaitGroup
	turns := make(chan struct{}, 4)
	for i, m := range mistakes {
		group.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			said, err := s.Shell(strings.Replace(m.line, "./", stack.Root()+"/", 1))
			switch {
			case err == nil:
				said = "(it succeeds) " + said
			case strings.Contains(said, "The last lines of"):
				said = "(after the build) " + said
			case strings.Contains(said, m.names) && strings.Contains(said, m.allowed) && strings.Contains(said, m.next):
				return
			}
			results[i] = "x " + said
		})
	}
	group.Wait()
	good := len(mistakes)
	for i, said := range results {
		if m := mistakes[i]; said != "" {
			good--
			t.Errorf("%s\ngot  %swant %q, %q, %q", m.line, said[2:], m.names, m.allowed, m.next)
		}
	}
	t.Logf("%d of %d messages name the thing, what is allowed and the next step", good, len(mistakes))
}
