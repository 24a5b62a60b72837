package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Threat: a request without the secret, or a gate whose secret got lost, which
// takes "Bearer" and nothing for it.
func TestEveryCallNeedsTheSecret(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	lost := admin.RequireSecret(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got through") }), "", "")
	const secret = controltest.Secret
	for name, test := range map[string]struct {
		fields []string
		status int
	}{
		"right":                  {[]string{"Bearer " + secret}, http.StatusOK},
		"scheme in another case": {[]string{"bEARER " + secret}, http.StatusOK},
		"none":                   {nil, http.StatusUnauthorized},
		"empty":                  {[]string{""}, http.StatusUnauthorized},
		"no token":               {[]string{"Bearer"}, http.StatusUnauthorized},
		"empty token":            {[]string{"Bearer "}, http.StatusUnauthorized},
		"wrong":                  {[]string{"Bearer " + strings.Repeat("x", 34)}, http.StatusUnauthorized},
		"beginning of it":        {[]string{"Bearer " + secret[:20]}, http.StatusUnauthorized},
		"more than it":           {[]string{"Bearer " + secret + "x"}, http.StatusUnauthorized},
		"another scheme":         {[]string{"Basic " + secret}, http.StatusUnauthorized},
		"no scheme":              {[]string{secret}, http.StatusUnauthorized},
		"twice":                  {[]string{"Bearer " + secret, "Bearer " + secret}, http.StatusUnauthorized},
	} {
		for _, target := range []string{"/tollgate/plans", "/tollgate/openapi.json", "/tollgate/accounts"} {
			for handler, status := range map[*http.Handler]int{&g.Handled: test.status, &lost: http.StatusUnauthorized} {
				r := httptest.NewRequest(http.MethodGet, target, nil)
				r.Header["Authorization"] = test.fields
				w := httptest.NewRecorder()
				(*handler).ServeHTTP(w, r)
				if w.Code != status || status == http.StatusUnauthorized &&
					(w.Header().Get("WWW-Authenticate") != `Bearer realm="tollgate"` || !strings.Contains(w.Body.String(), `"code":"unauthenticated"`)) {
					t.Errorf("%s, %s: got %d %v %s, want %d", name, target, w.Code, w.Header(), w.Body, status)
				}
			}
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	for _, target := range []string{"/", "/tollgate", "/tollgate/", "/tollgate/plans/", "/tollgate/docs", "/tollgate/openapi.yaml", "/tollgate/accounts/", "/tollgate/accounts/a/keys/", "/schemas/Key.json"} {
		g.Refused(t, http.StatusNotFound, "not_found", "GET", target, "")
	}
	for target, allow := range map[string]string{
		"/tollgate/plans":                    "GET, HEAD",
		"/tollgate/accounts":                 "GET, HEAD, POST",
		"/tollgate/accounts/a":               "DELETE, GET, HEAD, PUT",
		"/tollgate/accounts/a/keys":          "GET, HEAD, POST",
		"/tollgate/accounts/a/keys/k":        "DELETE, PATCH",
		"/tollgate/accounts/a/keys/k/rotate": "POST",
		"/tollgate/accounts/a/limits":        "GET, HEAD",
		"/tollgate/accounts/a/limits/x/day":  "DELETE, PUT",
		"/tollgate/accounts/a/logins":        "DELETE",
		"/tollgate/accounts/a/usage":         "DELETE, GET, HEAD",
		"/tollgate/openapi.json":             "GET, HEAD",
	} {
		w := g.Call(t, "OPTIONS", target, "")
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != allow {
			t.Errorf("%s: got %d, Allow %q, want %q", target, w.Code, w.Header().Get("Allow"), allow)
		}
	}
}

// The gate must say that it cannot, or that it starts, not that it does not
// know: a caller that hears 404 might act on it. A start is not an error.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.Account(t, "acc_1", "starter")
	for _, down := range []error{store.ErrOpening, errors.New("dial tcp 10.1.2.3:6379: connection refused")} {
		g.Break(down)
		for _, call := range [][3]string{
			{"GET", "/tollgate/accounts", ""},
			{"PUT", "/tollgate/accounts/acc_1", `{"plan":"free"}`},
			{"DELETE", "/tollgate/accounts/acc_1", ""},
			{"POST", "/tollgate/accounts/acc_1/keys", `{"name":"ci"}`},
			{"GET", "/tollgate/accounts/acc_1/keys", ""},
			{"PATCH", "/tollgate/accounts/acc_1/keys/key_x", `{"name":"ci"}`},
			{"DELETE", "/tollgate/accounts/acc_1/keys/key_x", ""},
			{"PUT", "/tollgate/accounts/acc_1/limits/convert/day", `{"limit":1}`},
			{"DELETE", "/tollgate/accounts/acc_1/logins", ""},
			{"GET", "/tollgate/accounts/acc_1/usage", ""},
		} {
			w := g.Call(t, call[0], call[1], call[2])
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" || !strings.Contains(w.Body.String(), `"code":"unavailable"`) ||
				strings.Contains(w.Body.String(), "The gate is starting") != (down == store.ErrOpening) || strings.Contains(w.Body.String(), "10.1.2.3") {
				t.Errorf("%s %s: got %d %v %s", call[0], call[1], w.Code, w.Header(), w.Body)
			}
		}
		want := http.StatusOK
		if down == store.ErrOpening {
			want = http.StatusServiceUnavailable // the configuration may still fail
		}
		g.Must(t, want, "GET", "/tollgate/plans", "")
		if logged := strings.Contains(g.Log(), "10.1.2.3:6379"); logged != (want == http.StatusOK) || !logged && g.Log() != "" {
			t.Errorf("logged %q", g.Log())
		}
	}
	g.Break(nil)
	if got := g.Must(t, http.StatusOK, "GET", "/tollgate/accounts/acc_1", "")["plan"]; got != "starter" {
		t.Errorf("a refused change was made: plan %v", got)
	}
}
