package caddyupstream_test

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestExitStatus runs Caddy as a process of its own. It exits with 2 if the
// command line is invalid, and with 1 if no gate answers. Standard error has
// one plain line.
func TestExitStatus(t *testing.T) {
	t.Parallel()
	nowhere := " --address unix/" + filepath.Join(t.TempDir(), "admin.sock")
	upstream := nowhere + " --data " + t.TempDir()
	for _, test := range []struct {
		args    string
		status  int
		message string
	}{
		{"tollgate", 2, `missing command of "caddy tollgate"`},
		{"tollgate accounts", 2, `unknown command "accounts" of "caddy tollgate"`},
		{"tollgate key", 2, "missing command"},
		{"tollgate key make", 2, "unknown command"},
		{"tollgate plans --colour", 2, "unknown flag: --colour"},
		{"tollgate plans -x", 2, "unknown shorthand flag"},
		{"tollgate plans extra", 2, `unexpected argument "extra": "caddy tollgate plans" takes no arguments`},
		{"tollgate account list --json=maybe", 2, `invalid argument "maybe" for "--json" flag: allowed: true, false`},
		{"tollgate account show", 2, `missing argument <account>: "caddy tollgate account show" takes <account>`},
		{"tollgate account show acc_1 acc_2", 2, `unexpected argument "acc_2": "caddy tollgate account show" takes <account>`},
		{"tollgate account set acc_1", 2, "use --plan, --disabled, --label"},
		{"tollgate account set acc_1 --plan", 2, "flag needs an argument: --plan"},
		{"tollgate account import", 2, "missing argument <file>|-"},
		{"tollgate account import nowhere.jsonl", 1, "opening the accounts: "},
		{"tollgate usage export", 2, "missing flag --month of "},
		{"tollgate usage export --month november", 2, `invalid --month "november": want a month such as 2026-11`},
		{"tollgate usage export --month 2126-11 --format xml", 2, `invalid argument "xml" for "--format"`},
		{"tollgate usage export --month 2126-11" + nowhere, 1, "the gate is unreachable"},
		{"tollgate key create acc_1", 2, "missing flag --name of "},
		{"tollgate key create acc_1 --name x --ttl=", 2, "--ttl has no value"},
		{"tollgate key create acc_1 --name x --limit convert", 2, `invalid --limit "convert": want `},
		{"tollgate key rotate acc_1 key_x --overlap=", 2, "--overlap has no value"},
		{"tollgate key list acc_1 --kind admin", 2, `invalid argument "admin" for "--kind"`},
		{"tollgate limit set acc_1 convert many", 2, `"many": want a whole number from 0 to 10^15`},
		{"tollgate limit set acc_1 convert 5 --until soon", 2, `invalid --until "soon": want a day`},
		{"tollgate limit clear acc_1 convert --period week", 2, `invalid argument "week" for "--period"`},
		{"tollgate usage show acc_1 --days many", 2, `invalid argument "many" for "--days" flag: allowed: whole numbers from 1 to 90`},
		{"tollgate usage show acc_1 --days 91", 2, `invalid argument "91" for "--days" flag: allowed: whole numbers from 1 to 90`},
		{"tollgate usage refused --days 0", 2, `invalid argument "0" for "--days" flag: allowed: whole numbers from 1 to 400`},
		{"tollgate usage reset acc_1 --endpoint=", 2, "--endpoint has no value"},
		{"tollgate explain GET", 2, `missing argument <target>: "caddy tollgate explain" takes <method> <target>`},
		{"tollgate explain GET / --key=", 2, "--key has no value"},
		{"tollgate audit --since soon", 2, `invalid --since "soon": want a date such as`},
		{"tollgate explain GET api/rates" + nowhere, 2, `invalid <target> "api/rates": want a path that begins with /`},
		{"tollgate explain GET * --cost 0", 2, `invalid argument "0" for "--cost" flag: allowed: whole numbers from 1 to 1000000000000000`},
		{"tollgate audit --limit 99999999999999999999", 2, `invalid argument "99999999999999999999" for "--limit" flag: allowed: whole numbers from 1 to `},
		{"tollgate backup", 2, `missing argument <file>: "caddy tollgate backup" takes <file>`},
		{"tollgate backup nowhere/gate.backup --address bad:::", 2, `"bad:::" is not the address of an admin endpoint`},
		{"tollgate restore", 2, `missing argument <file>: "caddy tollgate restore" takes <file>`},
		{"tollgate restore gate.backup", 2, "missing flag --config of "},
		{"tollgate restore gate.backup --config Caddyfile --address localhost:2019", 2, "--address has no meaning here"},
		{"tollgate restore nowhere.backup --config Caddyfile", 1, "opening the backup: open nowhere.backup: "},
		{"tollgate plans --address 127.0.0.1:1-9", 2, `"127.0.0.1:1-9" is not the address of an admin endpoint`},
		{"tollgate plans --address localhost", 2, `"localhost" is not the address of an admin endpoint`},
		{"tollgate plans" + nowhere, 1, "the gate is unreachable"},
		{"tollgate health" + nowhere, 1, "the gate is unreachable"},
		{"tollgate account set acc_1 --plan free" + nowhere, 1, "the gate is unreachable"},
		{"tollgate account delete acc_1" + nowhere, 1, "the gate is unreachable"},
		{"tollgate jwks" + nowhere, 1, "the gate is unreachable"},
		{"tollgate --help", 0, ""},
		{"tollgate key create --help", 0, ""},
		{"upstream", 2, "caddy upstream needs a command: account, rates"},
		{"upstream serve", 2, `unknown command "serve" for "caddy upstream"`},
		{"upstream account", 2, "caddy upstream account needs a command: add, "},
		{"upstream account list --colour", 2, "unknown flag: --colour"},
		{"upstream account list --json=maybe", 2, `invalid argument "maybe" for "--json" flag: allowed: true, false`},
		{"upstream account list extra", 2, "takes no arguments"},
		{"upstream account add", 2, `missing argument <email>: "caddy upstream account add" takes an e-mail address`},
		{"upstream account add a@example.com", 2, `missing flag --plan of "caddy upstream account add"`},
		{"upstream account set a@example.com", 2, `missing flag of "caddy upstream account set": use --plan, --disabled`},
		{"upstream account add x --plan free --generate", 2, "invalid <email>: "},
		{"upstream account delete", 2, `missing argument <account>: "caddy upstream account delete" takes an e-mail address or an id`},
		{"upstream account list --address 127.0.0.1:1-9", 2, "is not the address of an admin endpoint"},
		{"upstream account list" + upstream, 1, "the gate is unreachable"},
		{"upstream account list --help", 0, ""},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			caddy := exec.CommandContext(t.Context(), "caddy", strings.Fields(test.args)...)
			caddy.Stdout, caddy.Stderr = &stdout, &stderr
			if err := caddy.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
				t.Fatal(err)
			}
			if got := caddy.ProcessState.ExitCode(); got != test.status {
				t.Errorf("got status %d, want %d\n%s", got, test.status, &stderr)
			}
			lines := strings.Count(stderr.String(), "\n")
			switch {
			case test.status == 0 && (lines != 0 || stdout.Len() == 0),
				test.status != 0 && (lines != 1 || stdout.Len() != 0 || !strings.HasPrefix(stderr.String(), "Error: ")),
				!strings.Contains(stderr.String(), test.message):
				t.Errorf("want %q\nstdout: %s\nstderr: %s", test.message, &stdout, &stderr)
			}
		})
	}
}
