package cli_test

import (
	"net"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
)

// TestScripts is not parallel because clitest.Run is not.
func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestCompletionWithoutGate checks that the shell goes on if a server accepts
// the connection and never answers.
func TestCompletionWithoutGate(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	out, _, err := clitest.RunAt(t.Context(), "http://"+listener.Addr().String(), "", cobra.ShellCompRequestCmd, "account", "show", "")
	if err != nil || out != ":4\n" {
		t.Errorf("got %v, %q", err, out)
	}
}
