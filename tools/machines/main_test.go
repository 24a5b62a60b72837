package main

import (
	"path/filepath"
	"testing"
)

// TestCheck: a call that only Linux has, and a number that only 64 bits hold, are
// found where they do not compile.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs("../../internal/system")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		machine, source string
		found           bool
	}{
		{"linux/amd64", `import "golang.org/x/sys/unix"; var _ = unix.Fdatasync`, false},
		{"darwin/arm64", `import "golang.org/x/sys/unix"; var _ = unix.Fdatasync`, true},
		{"linux/arm64", `var _ int = 1 << 40`, false},
		{"linux/mipsle", `var _ int = 1 << 40`, true},
	} {
		overlay := map[string][]byte{filepath.Join(dir, "added.go"): []byte("package system; " + c.source)}
		if err := check(c.machine, overlay, dir); (err != nil) != c.found {
			t.Errorf("%s: %s: got %v", c.machine, c.source, err)
		}
	}
}
