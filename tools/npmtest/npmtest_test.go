package npmtest_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/caddy-tollgate/tollgate/tools/npmtest"
)

// TestInstallInParallel: tests that start together all find the package
// complete. The first of them installs it if the cache is empty.
func TestInstallInParallel(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			modules := npmtest.Install(t, "jose@5.10.0")
			if _, err := os.Stat(filepath.Join(modules, "jose", "package.json")); err != nil {
				t.Error(err)
			}
		})
	}
}
