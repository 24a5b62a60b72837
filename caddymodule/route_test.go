package caddymodule_test

import (
	"fmt"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy/fastcgi"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy/forwardauth"
)

// TestRewritesBehind: a rewrite behind the gate leads to a guarded path, and each
// load warns of it once, as of a gate that only one spelling of a path reaches, of
// a gate that no request reaches, and of sites without a gate. Rewrites in front of
// the gate and those that change no path are none.
func TestRewritesBehind(t *testing.T) {
	const rewrite, beside = "the service gets a path that the gate has not checked", "other spellings of a path can pass beside it"
	s, log := logged(t, "WARN", setup{port: freePort(t), more: "docs https://example.com"})
	seen := len(log())
	for name, test := range map[string]struct {
		site   string // with the directive tollgate
		opened string // a target that needs no token
		want   []string
	}{
		"handle_path":         {"tollgate\nhandle_path /x/* {\nreverse_proxy UPSTREAM\n}", "/x/api/convert/EUR/1/USD", []string{"(strip /x): " + rewrite}},
		"uri in a handle":     {"tollgate\nhandle {\nuri strip_suffix /y\nreverse_proxy UPSTREAM\n}", "", []string{"(strip /y): " + rewrite}},
		"uri replace":         {"route {\ntollgate\nuri replace /v1/ /api/\nreverse_proxy UPSTREAM\n}", "/v1/convert/EUR/1/USD", []string{"(replace): " + rewrite}},
		"uri path_regexp":     {"route {\ntollgate\nuri path_regexp ^/v1/ /api/\nreverse_proxy UPSTREAM\n}", "/v1/convert/EUR/1/USD", []string{"(replace): " + rewrite}},
		"rewrite":             {"route {\ntollgate\nrewrite /open /api/private\nreverse_proxy UPSTREAM\n}", "/open", []string{"(to /api/private): " + rewrite}},
		"reverse_proxy":       {"tollgate\nreverse_proxy UPSTREAM {\nrewrite /api{uri}\n}", "/convert/EUR/1/USD", []string{"(to /api{http.request.uri}): " + rewrite}},
		"handle":              {"handle /api/* {\ntollgate\nreverse_proxy UPSTREAM\n}\nhandle {\nreverse_proxy UPSTREAM\n}", "/api;x/convert/EUR/1/USD", []string{"the path /api/*: " + beside}},
		"both":                {"handle /api/* {\ntollgate\nhandle_path /api/v1/* {\nreverse_proxy UPSTREAM\n}\n}", "", []string{"the path /api/*: " + beside}},
		"no gate":             {"reverse_proxy UPSTREAM", "/api/private", []string{"No site has the directive tollgate"}},
		"behind a proxy":      {"route {\nreverse_proxy UPSTREAM\ntollgate\n}", "/api/private", []string{"tollgate is behind reverse_proxy"}},
		"behind an answer":    {"route {\nhandle {\nrespond hello\n}\nhandle {\ntollgate\n}\n}", "/api/private", []string{"tollgate is behind static_response"}},
		"named route":         {"invoke gate\nreverse_proxy UPSTREAM\n}\n&(gate) {\ntollgate", "", nil},
		"below a guard":       {"tollgate\nhandle_path /api/x/* {\nreverse_proxy UPSTREAM\n}", "", nil},
		"forward_auth":        {"route {\nforward_auth UPSTREAM {\nuri /auth\n}\ntollgate\n}", "", nil},
		"in front":            {"rewrite /open /api/private\nuri strip_prefix /x\ntollgate\nreverse_proxy UPSTREAM", "", nil},
		"another site's part": {"handle_path /x/* {\nreverse_proxy UPSTREAM\n}\nhandle {\ntollgate\nreverse_proxy UPSTREAM\n}", "", nil},
		"no path":             {"tollgate\nroute {\nmethod GET\nuri query -debug\nrewrite ?a=b\nrewrite /index.php?{query}\nreverse_proxy UPSTREAM\n}", "", nil},
		"files":               {"tollgate\nhandle {\ntry_files {path} /index.html\nfile_server\n}\nroute {\nforward_auth UPSTREAM {\nuri /auth\n}\nphp_fastcgi UPSTREAM\n}", "", nil},
	} {
		upstream := strings.TrimPrefix(s.upstream.server.URL, "http://")
		text := s.text(s.upstream.server.URL)
		options, _, _ := strings.Cut(text, "http://:")
		text = options + fmt.Sprintf("http://:%d {\nbind 127.0.0.1\n%s\n}\n", s.port, strings.ReplaceAll(test.site, "UPSTREAM", upstream))
		if err := load(text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := strings.ReplaceAll(log()[seen:], `\"`, `"`)
		seen = len(log())
		if n := strings.Count(got, "the configuration probably has a mistake"); n != len(test.want) {
			t.Errorf("%s: %d warnings, want %d: %s", name, n, len(test.want), got)
		}
		for _, want := range test.want {
			if strings.Count(got, want) != 1 {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		if test.opened != "" {
			if answer := s.ask(t, "GET", test.opened, ""); answer.status != 200 {
				t.Errorf("%s: %s is %d: it is not open any more, so the warning is wrong", name, test.opened, answer.status)
			}
		}
	}
}
