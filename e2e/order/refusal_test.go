//go:build long

package order_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRefusalsOfOtherHandlers: what a call costs that another handler
// refuses. In front of the gate nothing: the gate does not see it. Behind the
// gate nothing if the handler returns an error 403 or 429, which Caddy answers,
// and 1 for other errors, or if the handler writes the answer or a proxy has run.
// The service never sees it.
func TestRefusalsOfOtherHandlers(t *testing.T) {
	front := func(handler string) string { return handler + "\n\ttollgate\n\tSERVICE" }
	behind := func(handler string) string {
		return "route {\n\t\ttollgate\n\t\t" + handler + "\n\t\tSERVICE\n\t}"
	}
	login := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(login.Close)
	const rateLimit = "rate_limit {\n\t\t\tzone once {\n\t\t\t\tkey static\n\t\t\t\twindow 1h\n\t\t\t\tevents 1\n\t\t\t}\n\t\t}"
	cases := map[string]struct {
		directives    string
		first, status int // of two calls of one account
		used          int64
	}{
		"rate_limit in front": {front(rateLimit), 200, 429, 1},
		"rate_limit behind":   {behind(rateLimit), 200, 429, 1},
		"error in front":      {"route {\n\t\terror 403\n\t\ttollgate\n\t\tSERVICE\n\t}", 403, 403, 0},
		"error behind":        {behind("error 403"), 403, 403, 0},
		"basic_auth behind":   {behind("basic_auth {\n\t\t\tcarol $2a$04$ak51T5QFjVRuMkVUxbWoLO.gIKf/mvAZYKZm24y5WHQnRQpfzJL4e\n\t\t}"), 401, 401, 2},
		// forward_auth is a proxy too: the gate cannot tell it from that of a service.
		"error behind, forward_auth in front": {"route {\n\t\tforward_auth " + login.Listener.Addr().String() + " {\n\t\t\turi /\n\t\t}\n\t\ttollgate\n\t\terror 403\n\t\tSERVICE\n\t}", 403, 403, 2},
		"error behind a proxy":                {behind("reverse_proxy " + login.Listener.Addr().String() + " {\n\t\t\t@any status 2xx\n\t\t\thandle_response @any {\n\t\t\t\terror 403\n\t\t\t}\n\t\t}"), 403, 403, 2},
		"respond behind":                      {behind("respond 403"), 403, 403, 2},
	}
	sites := map[string]string{}
	for name, c := range cases {
		sites[name] = c.directives
	}
	m := startModules(t, "", "", sites)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := m.used(t, "ada")
			for _, want := range []int{c.first, c.status} {
				seen := m.service.requests()
				got := m.get(t, name, "/api/items/1", "Authorization: Bearer "+m.ada)
				if served := m.service.requests() > seen; got.StatusCode != want || served != (want == http.StatusOK) {
					t.Errorf("got %d %s, want %d; the service saw it: %t", got.StatusCode, got.text, want, served)
				}
			}
			if got := m.used(t, "ada") - before; got != c.used {
				t.Errorf("counted %d, want %d", got, c.used)
			}
		})
	}
}
