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

// TestBenchWithoutWrk runs the benchmark without wrk, with a package manager
// that cannot install it. The benchmark asks the package manager, and ends
// before it builds anything.
func TestBenchWithoutWrk(t *testing.T) {
	stack.SkipInOneProcess(t, "it starts no stack")
	t.Parallel()
	calls := filepath.Join(t.TempDir(), "calls")
	cmd := bench(t, nil, map[string]string{
		"id":         "echo 0",
		"dpkg-query": "exit 1",
		"apt-get":    `echo "$@" >>"$CALLS"`,
		"go":         `echo "go $*" >>"$CALLS"; exit 1`,
	})
	cmd.Env = append(cmd.Env, "CALLS="+calls)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "bench needs the load generator wrk") {
		t.Errorf("got %v, %s", err, out)
	}
	text, err := os.ReadFile(calls)
	if err != nil || !strings.Contains(string(text), "install") || !strings.Contains(string(text), " redis-server wrk\n") {
		t.Errorf("the package manager was not asked for redis-server and wrk: %v, %s", err, text)
	}
	if strings.Contains(string(text), "go ") {
		t.Errorf("the benchmark built first: %s", text)
	}
}

// bench returns the command of a benchmark that finds only some tools of this
// machine, and those that are scripts.
func bench(t *testing.T, tools []string, scripts map[string]string) *exec.Cmd {
	t.Helper()
	bin := t.TempDir()
	for _, tool := range append(tools, "dirname", "mkdir", "cat") {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	for tool, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(stack.Root(), "xcaddy.sh"), "bench", "-quick")
	cmd.Env = []string{"PATH=" + bin}
	return cmd
}
