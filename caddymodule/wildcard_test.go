package caddymodule_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestWildcardsLikePlaceholders loads endpoints whose wildcards have names of
// Caddy's placeholders and of the short forms that a Caddyfile has for them. In
// the block of the gate they are wildcards.
func TestWildcardsLikePlaceholders(t *testing.T) {
	names := []string{"file", "env", "http", "system", "path", "host", "query", "vars"}
	var options, limits strings.Builder
	var abilities []string
	for _, name := range names {
		fmt.Fprintf(&options, "endpoint one-%[1]s GET /api/one/%[1]s/{%[1]s}/x\nendpoint all-%[1]s GET /api/all/%[1]s/{%[1]s...}\n", name)
		abilities = append(abilities, "one-"+name, "all-"+name)
		fmt.Fprintf(&limits, "one-%[1]s 5\nall-%[1]s 5\n", name)
	}
	s := start(t, setup{zone: calmZone(), gate: "guard /api/\n" + options.String() + "plan free\nplan small {\n" + limits.String() + "}"})
	id, bearer := s.account(t, "small", abilities...)
	for _, name := range names {
		for endpoint, path := range map[string]string{"one-" + name: "/api/one/" + name + "/a/x", "all-" + name: "/api/all/" + name + "/a/b"} {
			if got := s.ask(t, "GET", path, "", "Authorization: Bearer "+bearer); got.status != 200 || s.used(t, id, endpoint) != 1 {
				t.Errorf("%s: got %+v", path, got)
			}
		}
	}
	for _, name := range []string{"env.PREFIX", "file./etc/prefix", "file.../prefix", "http.request.host"} {
		config, err := adapt("{\ntollgate {\nsecret " + strings.Repeat("x", 40) + "\nendpoint x GET /api/{" + name + "}/x\n}\n}\n")
		if err == nil || !strings.Contains(err.Error(), "is not replaced in patterns") {
			t.Errorf("%s: got %s, %v", name, config, err)
		}
	}
}
