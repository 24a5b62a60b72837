package npmtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestInstallAtOnce installs a package into an empty cache several times at
// once, as processes do. Each gets the same complete folder, and the folder is
// complete as soon as it exists.
func TestInstallAtOnce(t *testing.T) {
	t.Parallel()
	need(t)
	cache := t.TempDir()
	modules := filepath.Join(cache, "jose@5.10.0", "node_modules")
	want := []string{"package.json", "dist/node/esm/index.js", "dist/node/esm/util/runtime.js"}
	done := make(chan struct{})
	var looking, processes sync.WaitGroup
	looking.Go(func() {
		for range time.Tick(time.Millisecond) {
			if _, err := os.Stat(modules); err == nil {
				wantFiles(t, filepath.Join(modules, "jose"), want)
				return
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for range 3 {
		processes.Go(func() {
			got, err := install(t.Context(), cache, []string{"jose@5.10.0"})
			if err != nil || got != modules {
				t.Errorf("got %q, %v, want %q", got, err, modules)
				return
			}
			wantFiles(t, filepath.Join(got, "jose"), want)
		})
	}
	processes.Wait()
	close(done)
	looking.Wait()
	if left, err := os.ReadDir(cache); err != nil || len(left) != 1 {
		t.Errorf("the cache has %v, %v, want one folder", left, err)
	}
}

func wantFiles(t *testing.T, folder string, files []string) {
	t.Helper()
	for _, file := range files {
		if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
			t.Error(err)
		}
	}
}

// A failed installation leaves nothing that a later one takes for the package.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	need(t)
	cache := t.TempDir()
	missing := []string{"file:" + filepath.Join(cache, "missing")}
	if got, err := install(t.Context(), cache, missing); err == nil {
		t.Errorf("got %q, want an error", got)
	}
	if left, err := os.ReadDir(cache); err != nil || len(left) != 0 {
		t.Errorf("the cache has %v, %v, want nothing", left, err)
	}
}
