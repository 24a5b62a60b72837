package e2e_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestBenchWithoutWrk runs the benchmark on a machine that lacks wrk and
// whose package manager does not have it either: it is asked for, and the
// benchmark ends before it builds anything.
func TestBenchWithoutWrk(t *testing.T) {
	t.Parallel()
	bin, asked := t.TempDir(), filepath.Join(t.TempDir(), "asked")
	for _, tool := range []string{"dirname", "mkdir", "cat"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for tool, script := range map[string]string{
		"id":         "echo 0",
		"dpkg-query": "exit 1",
		"apt-get":    `echo "$@" >>"$ASKED"`,
		"go":         `echo "go $*" >>"$ASKED"; exit 1`,
	} {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(stack.Root(), "xcaddy.sh"), "bench", "-quick")
	cmd.Env = []string{"PATH=" + bin, "ASKED=" + asked}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "bench needs wrk") {
		t.Errorf("got %v, %s", err, out)
	}
	text, err := os.ReadFile(asked)
	if err != nil || !strings.Contains(string(text), "install") || !strings.Contains(string(text), " wrk\n") {
		t.Errorf("wrk was not asked for: %v, %s", err, text)
	}
	if strings.Contains(string(text), "go ") {
		t.Errorf("it built first: %s", text)
	}
}
