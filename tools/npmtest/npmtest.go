// Package npmtest installs packages of npm that tests run. They are tools of
// the tests and no part of the product.
package npmtest

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// installing lets tests that run in parallel download a package once.
var installing sync.Mutex

// Install installs packages, each with its version ("jose@5.10.0"), into the
// project's cache at first use, and returns the node_modules that has them.
// A test without npm is skipped, in CI it fails.
//
// A folder appears in the cache under its name only when it is complete:
// other tests, also of other packages, never see half of it.
func Install(t testing.TB, packages ...string) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") != "true" {
			t.Skip("npm is not installed")
		}
		t.Fatalf("the test needs npm: %v", err)
	}
	_, file, _, _ := runtime.Caller(0)
	cache := filepath.Join(filepath.Dir(file), "..", "..", ".cache", "npm")
	folder := filepath.Join(cache, url.PathEscape(strings.Join(packages, "+")))
	modules := filepath.Join(folder, "node_modules")

	installing.Lock()
	defer installing.Unlock()
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	arguments := append([]string{"install", "--prefix", fresh, "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"}, packages...)
	if out, err := exec.CommandContext(ctx, "npm", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("installing %s by npm: %v\n%s", strings.Join(packages, ", "), err, out)
	}
	// Another process may have been first.
	if err := os.Rename(fresh, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return modules
}
