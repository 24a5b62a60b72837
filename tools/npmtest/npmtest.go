// Package npmtest installs packages of npm that tests run. They are tools of
// the tests and no part of the product.
package npmtest

import (
	"context"
	"errors"
	"fmt"
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
func Install(t testing.TB, packages ...string) string {
	t.Helper()
	need(t)
	_, file, _, _ := runtime.Caller(0)
	cache := filepath.Join(filepath.Dir(file), "..", "..", ".cache", "npm")
	installing.Lock()
	defer installing.Unlock()
	modules, err := install(t.Context(), cache, packages)
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

// need ends a test without npm.
func need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") != "true" {
			t.Skip("npm is not installed")
		}
		t.Fatalf("the test needs npm: %v", err)
	}
}

// install returns the node_modules with the packages in a cache. It appears
// there under its name only when it is complete, so that other processes never
// see half of it.
func install(ctx context.Context, cache string, packages []string) (string, error) {
	folder := filepath.Join(cache, url.PathEscape(strings.Join(packages, "+")))
	modules := filepath.Join(folder, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	arguments := append([]string{"install", "--prefix", fresh, "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"}, packages...)
	if out, err := exec.CommandContext(ctx, "npm", arguments...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("installing %s by npm: %w\n%s", strings.Join(packages, ", "), err, out)
	}
	// Another process may have been first.
	if err := os.Rename(fresh, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return modules, nil
}
