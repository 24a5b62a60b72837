package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// TestHangingGate: a page waits once for a gate that hangs. After that it makes
// no further call, but for one that undoes a sign-up.
func TestHangingGate(t *testing.T) {
	t.Parallel()
	var pages sync.WaitGroup
	for name, c := range map[string]struct {
		hangs    func(*http.Request) bool // nil: all calls
		page     func(*person) answer
		location string // empty: the page "The gate does not answer"
		calls    int64  // that hang
	}{
		"usage": {page: func(p *person) answer { return p.get("/usage") }, calls: 2},
		"export": {
			hangs: gatetest.Requests(http.MethodGet, "/keys"),
			page:  func(p *person) answer { return p.get("/settings/account/export") }, calls: 2,
		},
		"sign-in, with a session": {
			page:  func(p *person) answer { return p.post("/login", "email", "ada@example.com", "password", password) },
			calls: 1,
		},
		"sign-up": {
			hangs: func(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodDelete },
			page: func(p *person) answer {
				return p.world.person().post("/signup", "email", "bob@example.com", "password", password)
			}, calls: 2, // the second undoes the first
		},
		"new key": {
			hangs: gatetest.Requests(http.MethodPost, "/keys"),
			page: func(p *person) answer {
				return p.post("/settings/keys/new", "name", "ci", "ability", "convert", "life", "90")
			}, calls: 1,
		},
		"new password": {
			page:     func(p *person) answer { return p.post("/settings/password", "current", password, "password", other) },
			location: "/settings/password?done=password-alone", calls: 2,
		},
		"close": {
			hangs: gatetest.Requests(http.MethodDelete, ""),
			page:  func(p *person) answer { return p.post("/settings/account", "current", password) }, calls: 1,
		},
	} {
		w := newWorld(t, func(c *web.Config) { c.SignUp = "free" })
		w.add("ada@example.com", "starter")
		ada := w.person().signIn("ada@example.com")
		var hung atomic.Int64
		waits := make(chan struct{})
		wait := sync.OnceFunc(func() { close(waits) })
		release := make(chan struct{})
		t.Cleanup(func() { close(release) })
		w.gate.Fail(&gatetest.Fault{
			Hits: func(r *http.Request) bool { return c.hangs == nil || c.hangs(r) },
			Hook: func() { hung.Add(1); wait(); <-release },
		})
		pages.Go(func() {
			defer wait()
			got := c.page(ada)
			refused := got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "The gate does not answer") && got.header.Get("Retry-After") != ""
			if n := hung.Load(); n != c.calls || got.location != c.location || refused != (c.location == "") {
				t.Errorf("%s: %d calls hung, want %d; got %d to %q: %s", name, n, c.calls, got.status, got.location, got.body)
			}
		})
		<-waits // pages work one after the other and wait for seconds together
	}
	pages.Wait()
}

// TestClosedPage: a person who closes the page does not stop a change half way.
func TestClosedPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add("ada@example.com", "starter")
	ada := w.person().signIn("ada@example.com")
	for _, c := range []struct {
		path, form, method, suffix string
		want                       int
	}{
		{"new", "name=ci&ability=convert&life=90", http.MethodPost, "/keys", http.StatusOK},
		{"ID/edit", "name=other&ability=convert&life=90", http.MethodPatch, "", http.StatusSeeOther},
		{"ID/rotate", "overlap=0", http.MethodPost, "/rotate", http.StatusOK},
		{"ID/revoke", "", http.MethodDelete, "", http.StatusSeeOther},
	} {
		path := "/settings/keys/" + c.path
		if strings.Contains(path, "ID") {
			page := ada.get("/settings/keys").body
			_, id, _ := strings.Cut(page, `href="/settings/keys/key_`)
			id, _, _ = strings.Cut(id, `"`)
			path = strings.Replace(path, "ID", "key_"+id, 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w.gate.Fail(&gatetest.Fault{Hits: gatetest.Requests(c.method, c.suffix), Hook: cancel})
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(c.form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", ada.cookie())
		got := httptest.NewRecorder()
		w.Config.Handler.ServeHTTP(got, r)
		w.gate.Fail(nil)
		if got.Code != c.want || ctx.Err() == nil {
			t.Errorf("%s: got %d, want %d; closed: %v; %s", path, got.Code, c.want, ctx.Err(), got.Body)
		}
	}
}
