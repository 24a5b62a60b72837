package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImport(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "ada@example.com")
	path := filepath.Join(t.TempDir(), "accounts.jsonl")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"account":"acc_1","plan":"business"}`, `{"account":"acc_2","plan":"starter","label":"bob","disabled":true}`)
	expect(t, s.ok(t, "account", "import", path), "Created 1, changed 1, refused 0.\n")
	expect(t, s.ok(t, "account", "list"), `
ACCOUNT  PLAN      STATE     CREATED               LABEL
acc_1    business  active    2126-11-20T09:00:00Z  ada@example.com
acc_2    starter   disabled  2126-11-20T09:00:00Z  bob
`)
	if out := s.ok(t, "audit", "--account", "acc_2"); !strings.Contains(out, operator(t)) {
		t.Errorf("the audit log does not name the operator: %s", out)
	}

	write(`{"account":"acc_3","plan":"gold"}`, `{"account":"acc_3"}`, `nothing`)
	out, complaints, err := s.run(t, "account", "import", path)
	if err == nil || complaints != "Error: the gate refused 2 of 3 lines\n" {
		t.Errorf("got %v, %s", err, complaints)
	}
	for _, part := range []string{"LINE  ACCOUNT  CODE", "1     acc_3    unknown_plan", `Unknown plan "gold". Plans: free, starter, business.`, "3              invalid_request", "Created 1, changed 0, refused 2.\n"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	out, _, err = s.run(t, "account", "import", path, "--json")
	if lines := strings.Split(out, "\n"); err == nil || len(lines) != 4 || lines[1] != `{"line":2,"account":"acc_3","status":200}` {
		t.Errorf("as JSON: got %v, %s", err, out)
	}
}
