package examples_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/cli"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// kongFile is a configuration as deck writes it, with two consumers.
const kongFile = `_format_version: "3.0"
consumers:
- username: acme
  keyauth_credentials:
  - key: pLx6aVbDF1ixJdRCAsBGpdmtA9qkNQUU
- username: umbrella.example
  custom_id: cust-42
  keyauth_credentials:
  - key: CZMZm7k1eTHPMLTVcDXKZrVZAlwTtDrh
plugins:
- name: key-auth
`

// TestKongImport imports Kong's file with the commands of the example. Then
// its keys work, and only these.
func TestKongImport(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(service.Close)
	site, gate := run(t, "kong.Caddyfile", service.URL)
	commands := commandsOf(t, "kong.Caddyfile")
	if len(commands) != 4 {
		t.Fatalf("the example has the commands %q, want a plan, a dry run, an import and an address", commands)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("kong.yaml", []byte(kongFile), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := []string{"apikey", "pLx6aVbDF1ixJdRCAsBGpdmtA9qkNQUU"}, []string{"apikey", "CZMZm7k1eTHPMLTVcDXKZrVZAlwTtDrh"}
	imported := func(command string, keys, skipped int) {
		t.Helper()
		got := decode[struct {
			Imported, Skipped int
			Errors            []json.RawMessage
		}](t, tollgate(t, gate, command))
		if got.Imported != keys || got.Skipped != skipped || len(got.Errors) > 0 {
			t.Errorf("%s: got %+v, want %d imported and %d skipped", command, got, keys, skipped)
		}
	}
	tollgate(t, gate, commands[0])
	imported(commands[1], 2, 0)
	wantStatus(t, 401, "GET", site+"/shop/orders", "", first...)
	imported(commands[2], 2, 0)
	imported(commands[2], 0, 2)
	wantStatus(t, 200, "GET", site+"/shop/export", "", first...)
	wantStatus(t, 403, "GET", site+"/shop/export", "", second...)
	wantStatus(t, 200, "GET", site+"/shop/orders", "", second...)
	wantStatus(t, 401, "GET", site+"/shop/orders", "", "apikey", "pLx6aVbDF1ixJdRCAsBGpdmtA9qkNQUV")
	if got := used(t, gate, "cust-42", "orders"); got != 1 {
		t.Errorf("the consumer with a custom_id has %d calls, want 1", got)
	}
}

// TestCommands: the command line has each command in the comments of the
// examples, with its flags and as many arguments.
func TestCommands(t *testing.T) {
	files, err := filepath.Glob("*.Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		for _, text := range commandsOf(t, file) {
			found++
			command, rest, err := commandLine(nil).Find(strings.Fields(text))
			if err == nil {
				err = command.ParseFlags(rest)
			}
			if err == nil {
				err = command.ValidateArgs(command.Flags().Args())
			}
			if err != nil || !command.Runnable() || command.HasSubCommands() {
				t.Errorf("%s: invalid command %q: %v", file, text, err)
			}
		}
	}
	if found == 0 {
		t.Error("the examples have no commands")
	}
}

// commandsOf returns the commands "caddy tollgate" in the comments of an
// example, each to the end of its line.
func commandsOf(t *testing.T, file string) (commands []string) {
	t.Helper()
	for line := range strings.Lines(read(t, file)) {
		_, comment, _ := strings.Cut(line, "#")
		if _, command, found := strings.Cut(comment, "caddy tollgate "); found {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	return commands
}

// commandLine returns the commands of "caddy tollgate" for a gate.
func commandLine(gate *client.Client) *cobra.Command {
	root := &cobra.Command{Use: "tollgate", SilenceUsage: true}
	cli.Add(root, func(string) (*client.Client, error) { return gate, nil }, time.Now)
	return root
}

// tollgate runs a command of "caddy tollgate" against a gate, and returns its
// output.
func tollgate(t *testing.T, gate *client.Client, command string) string {
	t.Helper()
	root := commandLine(gate)
	var out, complaints bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&complaints)
	root.SetArgs(strings.Fields(command))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, &complaints)
	}
	return out.String()
}
