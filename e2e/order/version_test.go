//go:build long

package order_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestVersion: e2e/modules has the Caddy of the programs.
func TestVersion(t *testing.T) {
	t.Parallel()
	version := func(dir string) string {
		list := exec.CommandContext(t.Context(), "go", "list", "-m", "github.com/caddyserver/caddy/v2")
		list.Dir = filepath.Join(stack.Root(), dir)
		out, err := list.Output()
		must(t, err)
		return string(out)
	}
	if got, want := version("e2e/modules"), version("."); got != want {
		t.Errorf("e2e/modules has %s, the programs have %s", got, want)
	}
}
