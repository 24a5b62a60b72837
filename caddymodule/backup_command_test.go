package caddymodule

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestPublish: a draft gets a name that no file has, with hard links and
// without.
func TestPublish(t *testing.T) {
	t.Parallel()
	for name, publish := range map[string]func(draft, path string) error{"hard links": publish, "no hard links": renameToNew} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			draft, path := filepath.Join(dir, "draft"), filepath.Join(dir, "backup")
			for round, want := range []error{nil, fs.ErrExist} {
				text := []string{"first", "second"}[round]
				if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := publish(draft, path); !errors.Is(err, want) {
					t.Errorf("publishing the %s draft: got %v, want %v", text, err, want)
				}
				if got, err := os.ReadFile(path); err != nil || string(got) != "first" {
					t.Errorf("after the %s draft the file has %q (%v), want the first one", text, got, err)
				}
				if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestPublishFails: a rename that fails leaves no file with the name.
func TestPublishFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "backup")
	if err := publish(path+".missing", path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file: %v, want none", err)
	}
}

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
