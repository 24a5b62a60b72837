package admin_test

import (
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

// TestOnlyPutMakesAnAccount: every other operation on an id that no account has
// is refused and leaves none, also if the plan free has access.
func TestOnlyPutMakesAnAccount(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	config := controltest.Config()
	config.Plans[0].Limits = controltest.Limits(map[string]int64{"convert": 5})
	g.Configure(t, config)
	const path = "/tollgate/accounts/stranger"
	for _, c := range []struct{ method, path, body string }{
		{"GET", "", ""},
		{"DELETE", "", ""},
		{"GET", "/document", ""},
		{"POST", "/keys", `{"name":"ci"}`},
		{"POST", "/keys", `{"kind":"login"}`},
		{"GET", "/keys", ""},
		{"PATCH", "/keys/key_1", `{"name":"ci"}`},
		{"DELETE", "/keys/key_1", ""},
		{"POST", "/keys/key_1/rotate", ""},
		{"DELETE", "/logins", ""},
		{"PUT", "/limits/convert/day", `{"limit":1}`},
		{"DELETE", "/limits/convert/day", ""},
		{"GET", "/limits", ""},
		{"GET", "/usage", ""},
		{"DELETE", "/usage", ""},
		{"POST", "/credits", `{"endpoint":"convert","calls":1}`},
		{"POST", "/portal", ""},
		{"POST", "/audit", `{"action":"operator.grant"}`},
	} {
		g.Refused(t, http.StatusNotFound, "not_found", c.method, path+c.path, c.body)
	}
	g.Refused(t, http.StatusNotFound, "not_found", "GET", path, "")
	if n := g.Entries(t); n != 0 {
		t.Errorf("the audit log has %d entries", n)
	}
}
