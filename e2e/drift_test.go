package e2e_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/api"
)

// TestCaddyfileFitsUpstream compares the endpoints of the shipped Caddyfile
// with the routes of the upstream. Clients would pay for an endpoint that
// only the Caddyfile has, and could not call one that only the upstream has.
func TestCaddyfileFitsUpstream(t *testing.T) {
	app := shippedApp(t)
	var gate []api.Route
	for _, e := range app.Endpoints {
		method, path, _ := strings.Cut(e.Pattern, " ")
		gate = append(gate, api.Route{Method: method, Path: path})
	}
	upstream := slices.Clone(api.Routes())
	byPath := func(a, b api.Route) int { return cmp.Compare(a.Path, b.Path) }
	slices.SortFunc(gate, byPath)
	slices.SortFunc(upstream, byPath)
	if !slices.Equal(gate, upstream) {
		t.Errorf("the Caddyfile has %v, the upstream %v", gate, upstream)
	}
	if want := http.MethodGet + " /api/usage"; app.Usage != want {
		t.Errorf("usage is at %q, want %q", app.Usage, want)
	}
	if want := []string{"/api/"}; !slices.Equal(app.Guard, want) {
		t.Errorf("the guards are %q, want %q", app.Guard, want)
	}
	for _, r := range upstream {
		if !strings.HasPrefix(r.Path, "/api/") {
			t.Errorf("%s is outside of the guard", r.Path)
		}
	}
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
