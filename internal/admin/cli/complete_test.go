package cli_test

import (
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/feature"
)

// offered returns what a shell offers for the last argument. It offers no
// names of files.
func (s *shell) offered(t *testing.T, args ...string) string {
	t.Helper()
	words, directive := s.completed(t, args...)
	if directive != ":4" {
		t.Errorf("%q: the directive is %s", args, directive)
	}
	return words
}

// completed returns what a shell gets for the last argument: the words and the
// directive of cobra.
func (s *shell) completed(t *testing.T, args ...string) (words, directive string) {
	t.Helper()
	out, _, err := s.run(t, append([]string{cobra.ShellCompRequestCmd}, args...)...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	last := len(lines) - 1
	return strings.Join(lines[:last], ", "), lines[last]
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter", "--label", "ada@example.com")
	s.ok(t, "account", "set", "acc_10", "--plan", "starter")
	s.ok(t, "account", "set", "bob", "--plan", "starter")
	id := ids.FindString(s.ok(t, "key", "create", "acc_1", "--name", "ci"))
	gone := ids.FindString(s.ok(t, "key", "create", "acc_1", "--name", "gone"))
	s.ok(t, "key", "revoke", "acc_1", gone)
	const all, acc, plans, endpoints = "acc_1\tada@example.com, acc_10, bob", "acc_1\tada@example.com, acc_10", "free, starter, business",
		"currencies\tGET /api/currencies, convert\tGET /api/convert/{from}/{amount}/{to}, batch\tPOST /api/convert/batch, usage\tGET /api/usage"
	for _, args := range [][]string{{"account", "import", ""}, {"key", "import", ""}, {"usage", "export", "--output", ""}} {
		if words, directive := s.completed(t, args...); words != "" || directive != ":0" {
			t.Errorf("%q: got %q, %s, want names of files", args, words, directive)
		}
	}
	for _, test := range []struct{ args, want string }{
		{"account show |", all},
		{"account show acc|", acc},
		{"account show acc_1|", acc},
		{"account show x|", ""},
		{"account show /|", ""},
		{"account show acc_1 |", ""},
		{"key revoke ada@example.com |", id + "\tci"},
		{"explain GET / --account ada@example.com --key |", id + "\tci"},
		{"account delete b|", "bob"},
		{"account set acc_1 --plan |", plans},
		{"account set acc_1 --plan s|", "starter"},
		{"account list --plan f|", "free"},
		{"limit set acc_1 |", endpoints + ", all\tall endpoints together"},
		{"limit set acc_1 a|", "all\tall endpoints together"},
		{"limit set acc_1 all |", ""},
		{"limit set acc_1 all 5 --period |", "second, minute, hour, day, month"},
		{"limit clear acc_1 b|", "batch\tPOST /api/convert/batch"},
		{"key create acc_1 --name x --ability |", "convert, currencies, usage"},
		{"key import keys.jsonl |", ""},
		{"key set acc_1 key_|", id + "\tci"},
		{"key set acc_1 " + id + " --ability c|", "convert, currencies"},
		{"key revoke acc_1 |", id + "\tci"},
		{"key rotate acc_1 |", id + "\tci"},
		{"key rotate stranger |", ""},
		{"key list acc_1 --kind |", "key, login"},
		{"usage reset acc_1 --endpoint u|", "usage\tGET /api/usage"},
		{"usage refused --account |", all},
		{"audit --account b|", "bob"},
		{"explain GET / --account b|", "bob"},
		{"explain GET / --key |", ""},
		{"explain GET / --account acc_1 --key |", id + "\tci"},
		{"plans |", ""},
		{"account show --address nowhere |", ""},
	} {
		args := strings.Split(strings.TrimSuffix(test.args, "|"), " ")
		if got := s.offered(t, args...); got != test.want {
			t.Errorf("%s: got %q, want %q", test.args, got, test.want)
		}
	}
}

// TestCompletionWithoutGate checks that the shell goes on if a server accepts
// the connection and never answers.
func TestCompletionWithoutGate(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var out, complaints strings.Builder
	root := &cobra.Command{Use: "tollgate"}
	cli.Add(root, func(string) (*client.Client, error) { return client.New("http://"+listener.Addr().String(), "") }, feature.Commands)
	root.SetOut(&out)
	root.SetErr(&complaints)
	root.SetArgs([]string{cobra.ShellCompRequestCmd, "account", "show", ""})
	if err := root.ExecuteContext(t.Context()); err != nil || out.String() != ":4\n" {
		t.Errorf("got %v, %q", err, &out)
	}
	// Cobra itself reports the directive there; shells ignore it.
	if !regexp.MustCompile(`^Completion ended with directive: \S+\n$`).MatchString(complaints.String()) {
		t.Errorf("standard error has %q", &complaints)
	}
}
