package site_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/site"
)

// TestCheck finds in the JSON of servers a rewrite behind the gate, sites without
// a gate, a gate that no request reaches, certificates that no site verifies, and a
// control API on all interfaces, but for the part that needs no secret.
func TestCheck(t *testing.T) {
	t.Parallel()
	compiled, err := policy.New(policy.Config{
		Guard: []string{"/api/"}, Plans: []policy.PlanConfig{{Name: "free"}}, Identity: &policy.IdentityConfig{Placeholder: "{http.request.tls.client.subject}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	secure := func(auth, handlers string) string {
		return `{"site":{"tls_connection_policies":[{},{"client_authentication":{` + auth + `}}],"routes":[{"handle":[` + handlers + `]}]}}`
	}
	gate := func(handlers string) string { return secure(`"mode":"verify_if_given"`, handlers) }
	const unverified = "The option identity reads client certificates, but no site with tollgate verifies them"
	const own = `{"handler":"tollgate"}`
	control := func(listen, match string) string {
		return `{"control":{"listen":["` + listen + `"],"routes":[{` + match + `"handle":[{"handler":"tollgate_control"}]}]},` + gate(own)[1:]
	}
	for name, test := range map[string]struct{ servers, want string }{
		"a gate":           {gate(own), ""},
		"always verified":  {secure(`"mode":"require_and_verify"`, own), ""},
		"by default":       {secure(`"ca":{"provider":"file"}`, own), ""},
		"no certificates":  {secure("", own), unverified},
		"requested":        {secure(`"mode":"request"`, own), unverified},
		"required":         {secure(`"mode":"require","ca":{"provider":"file"}`, own), unverified},
		"another server":   {`{"other":{"routes":[{"handle":[` + own + `]}]},` + gate(`{"handler":"vars"}`)[1:], unverified},
		"rewrite":          {gate(own + `,{"handler":"rewrite","strip_path_prefix":"/x"}`), "A rewrite behind tollgate changes the path (strip /x)"},
		"no gate":          {gate(`{"handler":"vars"}`), "No site has the directive tollgate: "},
		"behind an answer": {gate(`{"handler":"static_response"},` + own), "tollgate is behind static_response, "},
		"control":          {control(":8081", ""), "tollgate_control listens on all interfaces (:8081): "},
		"control, IPv4":    {control("0.0.0.0:8081", ""), "tollgate_control listens on all interfaces (0.0.0.0:8081): "},
		"control, IPv6":    {control("tcp/[::]:8081", `"match":[{"path":["/tollgate/*"]}],`), "tollgate_control listens on all interfaces (tcp/[::]:8081): "},
		"loopback":         {control("127.0.0.1:8081", ""), ""},
		"private":          {control("10.0.0.5:8081", ""), ""},
		"health":           {control(":8082", `"match":[{"path":["/tollgate/health/*"]}],`), ""},
		"public keys":      {control(":8443", `"match":[{"path":["/tollgate/health/*","/tollgate/jwks.json"]}],`), ""},
		"health, accounts": {control(":8082", `"match":[{"path":["/tollgate/health/*","/tollgate/accounts/*"]}],`), "tollgate_control listens on all interfaces (:8082): "},
	} {
		var servers map[string]site.Server
		if err := json.Unmarshal([]byte(test.servers), &servers); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := site.Check(servers, compiled)
		if len(got) > 1 || (len(got) == 1) != (test.want != "") || !strings.HasPrefix(strings.Join(got, ""), test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
