package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account/gatetest"
)

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
