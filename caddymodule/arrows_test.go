package caddymodule_test

import (
	"maps"
	"os/exec"
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
	gate := []string{"internal/gate/...", "internal/policy", "internal/route"}
	dependencies := list(t, "Deps")
	for _, test := range []struct {
		packages []string
		without  []string
	}{
		{ // the way of one request
			[]string{"internal/gate/...", "internal/route", "internal/token", "internal/calendar", "internal/policy", "internal/login", "internal/admin/usage"},
			[]string{caddy, huma, badger, redis, "caddymodule", "internal/admin", "caddymodule/control/client", "internal/admin/cli", "internal/store/badgerstore/...", "internal/store/redisstore/..."},
		},
		{ // the contract of a store
			[]string{"internal/store"},
			slices.Concat(gate, []string{caddy, huma, badger, redis, "net/http", "caddymodule", "caddymodule/control/...", "internal/admin/...", "internal/feature/...", "internal/store/badgerstore/...", "internal/store/redisstore/..."}),
		},
		{
			[]string{"internal/store/badgerstore/..."},
			slices.Concat(gate, []string{caddy, huma, redis, "caddymodule", "caddymodule/control/...", "internal/admin/...", "internal/feature/...", "internal/admin/usage", "internal/apierror", "caddymodule/assertion", "internal/store/redisstore/..."}),
		},
		{
			[]string{"internal/store/redisstore"},
			slices.Concat(gate, []string{caddy, huma, badger, "caddymodule", "caddymodule/control/...", "internal/admin/...", "internal/feature/...", "internal/admin/usage", "internal/apierror", "caddymodule/assertion", "internal/store/badgerstore/..."}),
		},
		{ // a gate without the store redis
			[]string{"caddymodule"},
			[]string{redis, "caddymodule/redis", "internal/store/redisstore/..."},
		},
		{
			[]string{"internal/admin"},
			[]string{caddy, badger, redis, "caddymodule", "internal/gate/...", "caddymodule/control/client", "internal/admin/cli", "internal/store/badgerstore/...", "internal/store/redisstore/..."},
		},
		{ // what services, clients and the gate share
			[]string{"internal/apierror", "caddymodule/assertion", "internal/outage", "internal/misuse", "caddymodule/control/api"},
			slices.Concat(gate, []string{caddy, huma, badger, "caddymodule", "internal/admin", "internal/login", "internal/store/...", "internal/admin/usage", "internal/admin/health", "internal/token", "internal/calendar"}),
		},
		{ // the gate knows no service
			[]string{"caddymodule/...", "internal/..."},
			[]string{"upstream/..."},
		},
		{ // clients of the control API, except the upstream in one process with the gate
			[]string{"caddymodule/control/client", "internal/admin/cli", "upstream/..."},
			slices.Concat(gate, []string{caddy, badger, "caddymodule", "internal/admin", "internal/login", "internal/store/...", "internal/admin/usage", "internal/admin/health"}),
		},
		{
			[]string{"caddymodule/control/client", "internal/admin/cli"},
			[]string{huma},
		},
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
var forTests = []string{"internal/admin/controltest", "internal/store/redisstore/redistest", "upstream/portal/account/gatetest", "upstream/portal/web/browsertest"}

// list returns a field of each package of this module: Imports, or Deps
// for the imports of the imports too.
func list(t *testing.T, field string) map[string][]string {
	t.Helper()
	const module = "github.com/caddy-tollgate/tollgate/"
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
