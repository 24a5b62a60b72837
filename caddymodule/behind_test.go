package caddymodule_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy/forwardauth"
)

// behind are directives whose answer shows what the handlers behind the gate
// see of a request, with the request that they get.
var behind = map[string]struct {
	directives string // BEHIND is where the gate is, in front of what follows
	body       string
}{
	"a header that is removed": {`BEHIND
		request_header -X-Admin
		@admin expression {http.request.header.X-Admin} == "yes"
		respond @admin ADMIN
		respond "admin={http.request.header.X-Admin}"`, ""},
	"a header that is set, in a map": {`BEHIND
		request_header X-Tier gold
		map {http.request.header.X-Tier} {limit} {
			gold 100
			default 1
		}
		respond {limit}`, ""},
	"a header that is set, in the proxy": {`BEHIND
		request_header X-Set one
		reverse_proxy UPSTREAM {
			header_up X-Seen {http.request.header.X-Set}
		}`, ""},
	"the method": {`BEHIND
		method PUT
		reverse_proxy UPSTREAM {
			header_up X-Seen {http.request.method}
		}`, ""},
	"a path": {`BEHIND
		rewrite /other?a=1
		respond "{uri} {http.request.orig_uri}"`, ""},
	"the body": {`BEHIND
		request_header X-Body {http.request.body}
		reverse_proxy UPSTREAM`, "some text"},
	"a body that is set": {`BEHIND
		request_body {
			set "other text of {http.request.header.X-Admin}"
		}
		reverse_proxy UPSTREAM`, "some text"},
	"a body that is too long, in front": {`request_body {
			max_size 5
		}
		BEHIND
		respond {http.request.body}`, "some text"},
	"a body that is too long, behind": {`BEHIND
		request_body {
			max_size 5
		}
		reverse_proxy UPSTREAM {
			header_up X-Body {http.request.body}
		}`, "some text"},
	"a cookie that is removed": {`BEHIND
		request_header -Cookie
		respond "session={http.request.cookie.session}"`, ""},
	"a copy of the request": {`forward_auth USERS {
			uri /
			copy_headers X-User
		}
		BEHIND
		request_header -X-Admin
		respond "{http.request.header.X-User} {http.request.header.X-Admin}"`, ""},
	"an error of the site": {`BEHIND
		error 413`, ""},
	"a service that is away": {`BEHIND
		reverse_proxy 127.0.0.1:1`, ""},
}

// TestOpenPathBehind: on open paths, a site with the gate means what it means
// without it.
func TestOpenPathBehind(t *testing.T) {
	users := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-User", "ada") })
	for name, c := range behind {
		t.Run(name, func(t *testing.T) {
			echo := func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Seen", strings.Join([]string{r.Method, r.RequestURI, r.Header.Get("X-Seen"), r.Header.Get("X-Body")}, " "))
			}
			got := map[string][]any{}
			for _, gate := range []string{"", "tollgate"} {
				s := start(t, setup{zone: calmZone(), upstream: echo})
				site := strings.NewReplacer("BEHIND", gate, "USERS", users.address()).Replace(c.directives)
				s.behind = "}\nhttp://gate.test:0 {\nbind 127.0.0.1\nroute {\n" + site + "\n}\nhandle_errors {\nrespond \"mine {err.status_code}\"\n}"
				if err := s.reload(); err != nil {
					t.Fatal(err)
				}
				answer := s.ask(t, "POST", "/page", c.body, "X-Admin: yes", "Cookie: session=1")
				got[gate] = []any{answer.status, answer.header["Seen"], answer.body, s.upstream.texts()}
			}
			without, with := got[""], got["tollgate"]
			for i := range with {
				if w, ok := with[i].([]string); ok && slices.Equal(w, without[i].([]string)) || !ok && with[i] == without[i] {
					continue
				}
				t.Errorf("without the gate %v, with it %v", without, with)
			}
		})
	}
}

// TestCallBehind: all handlers behind the gate see the headers that the gate
// sets, and none that it removes, also by placeholders and in copies of the
// request.
func TestCallBehind(t *testing.T) {
	users := startUpstream(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-User", "ada") })
	const sees = `{http.request.header.Tollgate-Account} {http.request.header.Tollgate-Plan} {http.request.header.Authorization}{http.request.header.X-Api-Key}{http.request.cookie.session}{http.request.header.Connection}`
	proxy := "reverse_proxy UPSTREAM {\nheader_up X-Seen \"" + sees + "\"\n}"
	for name, before := range map[string]string{"the request": "", "a copy of the request": "forward_auth " + users.address() + " {\nuri /\ncopy_headers X-User\n}"} {
		s := start(t, setup{zone: calmZone(), before: before, behind: proxy, more: "token_header X-Api-Key"})
		id, bearer := s.account(t, "small")
		for _, header := range []string{"Authorization: Bearer ", "X-Api-Key: "} {
			got := s.ask(t, "GET", convert, "", header+bearer, "Cookie: session=1", "Connection: X-Hop")
			r, _ := s.upstream.last(t)
			if seen := r.Header.Get("X-Seen"); got.status != http.StatusOK || seen != id+" small" {
				t.Errorf("%s: got %d, and the handlers behind see %q, want %q", name, got.status, seen, id+" small")
			}
		}
	}
}

// texts returns the bodies that the upstream got.
func (u *upstream) texts() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.bodies)
}
