package caddymodule

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCompletionOfFiles checks that a shell completes the files of backup and
// restore. The other commands take few files.
func TestCompletionOfFiles(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"backup |": ":0", "restore |": ":0", "restore x --config |": ":0", "plans |": ":4",
	} {
		root, out := &cobra.Command{Use: "tollgate"}, new(strings.Builder)
		command().CobraFunc(root)
		root.SetOut(out)
		root.SetErr(io.Discard)
		root.SetArgs(append([]string{cobra.ShellCompRequestCmd}, strings.Split(strings.TrimSuffix(args, "|"), " ")...))
		if err := root.Execute(); err != nil || !strings.HasSuffix(out.String(), want+"\n") {
			t.Errorf("%s: got %v, %q, want the directive %s", args, err, out, want)
		}
	}
}
