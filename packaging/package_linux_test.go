//go:build long

// Package packaging_test installs what ./xcaddy.sh package makes, and calls it.
package packaging_test

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

var dist = filepath.Join(stack.Root(), "dist")

// version is greater than zero and has no tag, on every machine.
const version = "1.2.3"

// build makes dist once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command(filepath.Join(stack.Root(), "xcaddy.sh"), "package")
	// No module may come from the network.
	cmd.Env = append(os.Environ(), "TOLLGATE_VERSION=v"+version, "SOURCE_DATE_EPOCH=1700000000", "GOPROXY=off", "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("packaging: %w\n%s", err, out)
	}
	return nil
})

// packaged makes dist, and returns the path of its only file of this pattern.
func packaged(t *testing.T, pattern string) string {
	t.Helper()
	must(t, build())
	files, err := filepath.Glob(filepath.Join(dist, pattern))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s has %q (%v), want one %s", dist, files, err, pattern)
	}
	return files[0]
}

// TestBinaries checks that the programs are static, and their checksums.
func TestBinaries(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile(packaged(t, "SHA256SUMS"))
	must(t, err)
	for _, pattern := range []string{"tollgate-caddy_" + version + "_linux_*", "tollgate-upstream_" + version + "_linux_*", "tollgate_" + version + "_*.deb"} {
		file := packaged(t, pattern)
		data, err := os.ReadFile(file)
		must(t, err)
		sum := sha256.Sum256(data)
		if line := hex.EncodeToString(sum[:]) + "  " + filepath.Base(file) + "\n"; !bytes.Contains(sums, []byte(line)) {
			t.Errorf("SHA256SUMS has no line %q:\n%s", line, sums)
		}
		if filepath.Ext(file) == ".deb" {
			continue
		}
		program, err := elf.NewFile(bytes.NewReader(data))
		must(t, err)
		if libraries, err := program.ImportedLibraries(); len(libraries) > 0 {
			t.Errorf("%s needs the libraries %q (%v), want none", file, libraries, err)
		}
		for _, p := range program.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s has an interpreter, want a static program", file)
			}
		}
	}
}

// need fails a test in CI if it cannot run here, and skips it elsewhere. It
// needs root, and programs or files with their paths.
func need(t *testing.T, files ...string) {
	t.Helper()
	missing := ""
	for _, file := range files {
		_, err := exec.LookPath(file)
		if filepath.IsAbs(file) {
			_, err = os.Stat(file)
		}
		if err != nil {
			missing = file
		}
	}
	if os.Geteuid() != 0 {
		missing = "root"
	}
	switch {
	case missing == "":
	case os.Getenv("CI") == "true":
		t.Fatalf("this test needs %s", missing)
	default:
		t.Skipf("this test needs %s", missing)
	}
}

// do runs a command and returns its output. The test fails if the command
// does.
func do(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// must fails a test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
