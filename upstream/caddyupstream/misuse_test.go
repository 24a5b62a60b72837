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
		{"tollgate plans --colour", 2, "unknown flag: --colour"},
		{"tollgate account set acc_1 --plan", 2, "flag needs an argument: --plan"},
		{"tollgate restore nowhere.backup --config Caddyfile", 1, "opening the backup: open nowhere.backup: "},
		{"tollgate plans --address localhost", 2, `"localhost" is not the address of an admin endpoint`},
		{"tollgate plans" + nowhere, 1, "the gate is unreachable"},
		{"tollgate --help", 0, ""},
		{"upstream", 2, `missing command of "caddy upstream": use account, backup, rates`},
		{"upstream serve", 2, `unknown command "serve" of "caddy upstream"`},
		{"upstream account", 2, `missing command of "caddy upstream account": use add, `},
		{"upstream account add x --plan free --generate", 2, "invalid <email>: "},
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
