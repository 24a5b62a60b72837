package internal_test

import (
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestArrows checks which packages a package may depend on, directly or
// through others. Tests and packages for tests may depend on anything.
//
// Paths of this module are written without its name. A path that ends in
// /... includes the packages below it.
func TestArrows(t *testing.T) {
	t.Parallel()
	const caddy, huma, badger, redis = "github.com/caddyserver/...", "github.com/danielgtaylor/huma/...", "github.com/dgraph-io/...", "github.com/redis/..."
	const stores, modules, clients = "internal/store/...", "caddymodule", "caddymodule/control/..."
	call := []string{"internal/gate/...", "internal/route", "internal/policy", "internal/usage"}
	shared := []string{"internal/contract", "internal/apierror", "internal/outage", "internal/misuse", "internal/terminal", "caddymodule/assertion"}
	core := slices.Concat(call, shared, []string{stores, "internal/token", "internal/calendar", "internal/login"})
	engines := []string{"internal/store/badgerstore/...", "internal/store/redisstore/...", badger, redis}
	above := []string{"internal/admin/...", "internal/feature/...", clients, modules, "caddymodule/redis", "upstream/...", caddy, huma}
	dependencies := list(t, "Deps")
	for _, test := range []struct{ packages, without []string }{
		// The core knows nothing above it.
		{core, above},
		{slices.Concat(call, []string{"internal/login"}), engines},
		{[]string{"internal/store"}, slices.Concat(engines, []string{"net/http"})},
		{[]string{stores}, slices.Concat(call, []string{"internal/apierror", "caddymodule/assertion"})},
		{[]string{"internal/store/badgerstore/..."}, []string{redis}},
		{[]string{"internal/store/redisstore"}, []string{badger}},
		// Clients know what they share with the gate, and nothing else of it.
		{slices.Concat(shared, []string{"caddymodule/control/api"}), slices.Concat(call, []string{stores, "internal/token", "internal/calendar", "internal/login"})},
		{[]string{clients, "internal/admin/cli", "upstream/..."}, slices.Concat(call, []string{
			stores, "internal/login", "internal/admin", "internal/admin/health", "internal/feature/...", modules, caddy, badger,
		})},
		{[]string{clients, "internal/admin/cli"}, []string{huma, "upstream/..."}},
		// Administration, features and modules.
		{[]string{"internal/admin"}, slices.Concat(engines, []string{"internal/gate/...", "caddymodule/control/client", "internal/admin/cli"})},
		{[]string{"internal/feature/..."}, engines},
		{[]string{"internal/admin/...", "internal/feature/..."}, []string{caddy, modules}},
		{[]string{modules}, []string{"caddymodule/redis", "internal/store/redisstore/...", redis}},
		{[]string{"internal/...", "caddymodule/..."}, []string{"upstream/..."}},
		// Two products.
		{[]string{"upstream/portal/..."}, []string{"upstream/currency/...", "upstream/app"}},
		{[]string{"upstream/currency/..."}, []string{"upstream/portal/...", "upstream/app"}},
	} {
		checked := 0
		for name, all := range dependencies {
			if !matches(name, test.packages) || name == oneProcess {
				continue
			}
			checked++
			for _, dependency := range all {
				if matches(dependency, test.without) {
					t.Errorf("%s depends on %s", name, dependency)
				}
			}
		}
		if checked < len(test.packages) {
			t.Errorf("%v: found %d packages", test.packages, checked)
		}
	}
}

// TestFeatures checks that no feature depends on another one, so that each can
// be left out.
func TestFeatures(t *testing.T) {
	t.Parallel()
	for name, all := range list(t, "Deps") {
		if !strings.HasPrefix(name, "internal/feature/") {
			continue
		}
		for _, dependency := range all {
			if matches(dependency, []string{"internal/feature/..."}) && !strings.HasPrefix(dependency+"/", name+"/") {
				t.Errorf("%s depends on %s", name, dependency)
			}
		}
	}
}

// TestFeaturesCanBeLeftOut checks the packages that import a feature: the list, the
// modules, and the commands that read a configuration.
func TestFeaturesCanBeLeftOut(t *testing.T) {
	t.Parallel()
	for name, imports := range list(t, "Imports") {
		for _, path := range imports {
			if strings.HasPrefix(path, "internal/feature/") && !matches(name, []string{"internal/feature", "caddymodule"}) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// TestOnlyModulesUseCaddy checks the packages that import Caddy.
func TestOnlyModulesUseCaddy(t *testing.T) {
	t.Parallel()
	modules := []string{"caddymodule", "caddymodule/redis", "internal/block", "internal/command", "internal/pool", "internal/site", oneProcess}
	for name, imports := range list(t, "Imports") {
		for _, path := range imports {
			if matches(path, []string{"github.com/caddyserver/caddy/..."}) && !matches(name, modules) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// oneProcess is the one package of the upstream that may import the gate and
// Caddy.
const oneProcess = "upstream/caddyupstream"

// TestOneProcess checks that only one package joins gate and upstream, and
// that both programs can be built without it. Tests may import it.
func TestOneProcess(t *testing.T) {
	t.Parallel()
	dependencies := list(t, "Deps")
	if own := dependencies[oneProcess]; !slices.Contains(own, "caddymodule") || !slices.Contains(own, "upstream/app") {
		t.Errorf("%s does not join gate and upstream", oneProcess)
	}
	for name, all := range dependencies {
		if slices.Contains(all, oneProcess) {
			t.Errorf("%s depends on %s", name, oneProcess)
		}
		if slices.Contains(all, "caddymodule") && slices.Contains(all, "upstream/app") && name != oneProcess {
			t.Errorf("%s joins gate and upstream", name)
		}
	}
}

// TestOnlyBadgerstoreUsesItsParts checks the packages that import the
// ledger and the log. The benchmark measures the ledger alone.
func TestOnlyBadgerstoreUsesItsParts(t *testing.T) {
	t.Parallel()
	parts := []string{"internal/store/badgerstore/ledger", "internal/store/badgerstore/wal"}
	users := []string{"internal/store/badgerstore/...", "internal/store/benchtest"}
	for name, imports := range list(t, "Imports") {
		for _, path := range imports {
			if matches(path, parts) && !matches(name, users) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

// forTests are packages that run a whole gate, a browser or Redis for tests.
var forTests = []string{"internal/admin/controltest", "internal/caddytest", "internal/store/redisstore/redistest", "upstream/portal/account/gatetest", "upstream/portal/web/browsertest"}

// list returns a field of each package of this module: Imports, or Deps
// for the imports of the imports too.
func list(t *testing.T, field string) map[string][]string {
	t.Helper()
	const module = "github.com/caddy-tollgate/tollgate/"
	// Go keeps the result until a directory changes that the test has read.
	if err := filepath.WalkDir("..", func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
		t.Fatalf("reading the directories: %v", err)
	}
	command := exec.CommandContext(t.Context(), "go", "list", "-f", `{{.ImportPath}} {{join .`+field+` " "}}`, module+"...")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("listing the packages: %v", err)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(out), module, "")) {
		fields := strings.Fields(line)
		packages[fields[0]] = fields[1:]
	}
	maps.DeleteFunc(packages, func(name string, _ []string) bool { return matches(name, forTests) })
	return packages
}

func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		above, tree := strings.CutSuffix(pattern, "/...")
		return name == above || tree && strings.HasPrefix(name, above+"/")
	})
}
