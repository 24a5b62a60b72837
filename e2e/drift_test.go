package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestCaddyfileFitsUpstream compares the endpoints of the shipped Caddyfile
// with the routes of the upstream. Clients would pay for an endpoint that
// only the Caddyfile has, and could not call one that only the upstream has.
func TestCaddyfileFitsUpstream(t *testing.T) {
	app := shippedApp(t)
	var gate []string
	for _, e := range app.Endpoints {
		gate = append(gate, e.Patterns...)
	}
	upstream := documentedPatterns(t)
	slices.Sort(gate)
	if !slices.Equal(gate, upstream) {
		t.Errorf("the Caddyfile has %v, the upstream %v", gate, upstream)
	}
	if want := http.MethodGet + " /api/usage"; app.Usage != want {
		t.Errorf("usage is at %q, want %q", app.Usage, want)
	}
	if want := []string{"/api/"}; !slices.Equal(app.Guard, want) {
		t.Errorf("the guards are %q, want %q", app.Guard, want)
	}
	for _, pattern := range upstream {
		if !strings.Contains(pattern, " /api/") {
			t.Errorf("%s is outside of the guard", pattern)
		}
	}
}

// documentedPatterns returns the sorted patterns in the document of the currency API,
// without the login and the usage. A test of package api compares the document
// with what is served.
func documentedPatterns(t *testing.T) (patterns []string) {
	t.Helper()
	text, err := os.ReadFile("../upstream/currency/api/testdata/openapi.json")
	must(t, err)
	var document struct{ Paths map[string]map[string]any }
	must(t, json.Unmarshal(text, &document))
	for path, methods := range document.Paths {
		for method := range methods {
			if path != "/api/login" && path != "/api/usage" {
				patterns = append(patterns, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(patterns)
	return patterns
}

func shippedApp(t *testing.T) *caddymodule.App {
	t.Helper()
	t.Setenv("TOLLGATE_SECRET", stack.Secret)
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(stack.Shipped(t)), map[string]any{"filename": "Caddyfile"})
	must(t, err)
	var config struct {
		Apps struct{ Tollgate *caddymodule.App }
	}
	must(t, json.Unmarshal(adapted, &config))
	return config.Apps.Tollgate
}
