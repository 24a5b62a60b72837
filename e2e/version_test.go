package e2e_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestVersion: both programs have the same stamp.
func TestVersion(t *testing.T) {
	t.Parallel()
	must(t, stack.Build())
	var stamps []string
	for _, command := range []string{"caddy tollgate version", "upstream version", "upstream --version"} {
		args := strings.Fields(command)
		out, err := exec.CommandContext(t.Context(), filepath.Join(stack.Root(), "bin", args[0]), args[1:]...).Output()
		must(t, err)
		stamps = append(stamps, string(out))
	}
	if strings.TrimSpace(stamps[0]) == "" || stamps[1] != stamps[0] || stamps[2] != stamps[0] {
		t.Errorf("got the versions %q, want one", stamps)
	}
}
