package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestOperations runs each command of docs/operations.md after the
// installation, in their order. The tests of the directory packaging install.
func TestOperations(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(stack.Root(), "docs", "operations.md"))
	must(t, err)
	_, commands, _ := strings.Cut(string(page), "\n## First day\n")
	s := stack.Start(t, stack.Shipped(t))
	dir := filepath.Dir(s.Caddyfile)
	must(t, os.Symlink(filepath.Join(stack.Root(), "bin"), filepath.Join(dir, "bin")))
	restored := stack.Shipped(t, "{$TOLLGATE_DATA:./data}/gate", "./restored")
	must(t, os.WriteFile(filepath.Join(dir, "restored.Caddyfile"), []byte(restored), 0o600))
	ran := 0
	for _, block := range blocks.FindAllStringSubmatch(commands, -1) {
		language, text := block[1], block[2]
		if language != "sh" {
			continue
		}
		if strings.Contains(text, "$KEY") {
			s.Set("KEY", newKey(t, s, "acc_1", "leaked").ID)
		}
		s.Run(strings.ReplaceAll(text, "127.0.0.1:8081", "$TOLLGATE_CONTROL"))
		ran++
	}
	if ran < 10 {
		t.Errorf("ran %d blocks of commands, want all of the page", ran)
	}
}
