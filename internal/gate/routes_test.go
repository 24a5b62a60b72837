package gate_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// TestEndpointOfManyRoutes: all routes of an endpoint are one name, one ability
// and one counter, and a recent call has its own method and path.
func TestEndpointOfManyRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.CORS = &policy.CORSConfig{Origins: []string{page}}
		c.Endpoints[0].Patterns = append(c.Endpoints[0].Patterns, "* /api/{path...}", "POST /api/rates/{base}")
	})
	bearer := w.account(t, "acc_1")
	var calls []string
	for _, line := range []string{
		"GET /api/convert/EUR/1/USD 200", "DELETE /api/a/b/ 200", "PURGE /api/a 200", "GET /api/rates/EUR 200 rates", "GET /api/rates/EUR/ 404", "POST /api/rates/EUR 200",
		"get /api/rates/EUR 405", "get /api/a 405", "TRACE /api/a 405", "CONNECT /api/a 405", "A-METHOD-THAT-IS-FAR-TOO-LONG /api/a 405", "HEAD /api/a 200", "OPTIONS /api/a 429",
	} {
		method, rest, _ := strings.Cut(line, " ")
		path, status, _ := strings.Cut(rest, " ")
		answer, err := w.ask(method, path, "", "Authorization: Bearer "+bearer)
		if got := strconv.Itoa(answer.Code); err != nil || got != strings.Fields(status)[0] {
			t.Errorf("%s %s: got %s (%v), want %s", method, path, got, err, status)
		}
		if status == "200" || status == "429" {
			calls = append(calls, method+" "+path)
		}
	}
	recent, err := w.db.Recent(t.Context(), "acc_1", noon)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for _, r := range recent {
		if r.Endpoint == "convert" {
			recorded = append(recorded, r.Method+" "+r.Path)
		}
	}
	if got, want := strings.Join(recorded, ", "), strings.Join(calls, ", "); got != want {
		t.Errorf("got the recent calls %s, want %s", got, want)
	}
	answer, err := w.ask(http.MethodOptions, "/api/a", "", origin, "Access-Control-Request-Method: PATCH")
	if got := answer.Header().Get("Access-Control-Allow-Methods"); err != nil || got != "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT" {
		t.Errorf("a preflight allows the methods %q (%v)", got, err)
	}
}
