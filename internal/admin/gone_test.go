package admin_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

// TestClientGone: a change whose client goes away has its entry, is made, and
// has its event.
func TestClientGone(t *testing.T) {
	t.Parallel()
	s := new(controltest.Steps)
	g := newGateOver(t, s)
	g.Account(t, "acc_1", "starter")
	key := keysPath + "/" + g.Issue(t, `{"name":"ci"}`).ID
	for _, call := range []struct{ method, target, media, body string }{
		{"PUT", "/tollgate/accounts/acc_1", "application/json", `{"label":"Customer 1"}`},
		{"POST", "/tollgate/accounts", "application/jsonl", `{"account":"acc_1","label":"Customer 2"}`},
		{"DELETE", key, "", ""},
	} {
		entries, events := g.Entries(t), len(g.Published())
		ctx, leave := context.WithCancel(t.Context())
		// The client goes away before the change. The store refuses to work for a
		// context that has ended, as one over a network does.
		s.Before = func(ctx context.Context, _ []string) error {
			leave()
			return ctx.Err()
		}
		r := httptest.NewRequestWithContext(ctx, call.method, call.target, strings.NewReader(call.body))
		if call.media != "" {
			r.Header.Set("Content-Type", call.media)
		}
		w := httptest.NewRecorder()
		g.InProcess().ServeHTTP(w, r)
		if w.Code >= 300 || strings.Contains(w.Body.String(), `"code"`) {
			t.Errorf("%s %s: got %d: %s", call.method, call.target, w.Code, w.Body)
		}
		if ctx.Err() == nil || g.Entries(t) != entries+1 || len(g.Published()) != events+1 {
			t.Errorf("%s %s: got %d entries and %d events, want one more than %d and %d",
				call.method, call.target, g.Entries(t), len(g.Published()), entries, events)
		}
	}
	account, err := g.Opened().Account(t.Context(), "acc_1")
	if err != nil || account.Label != "Customer 2" {
		t.Errorf("got %+v, %v", account, err)
	}
	if names := g.names(t, ""); len(names) != 0 {
		t.Errorf("live keys: got %q, want none", names)
	}
}

// TestEnrolClientGone: the account of an identity is made although its client
// goes away.
func TestEnrolClientGone(t *testing.T) {
	t.Parallel()
	s := new(controltest.Steps)
	g := newGateOver(t, s)
	ctx, leave := context.WithCancel(t.Context())
	s.Before = func(ctx context.Context, _ []string) error {
		leave()
		return ctx.Err()
	}
	if err := admin.Enrol(ctx, g, "acc_1", "ada", "starter"); err != nil || ctx.Err() == nil {
		t.Errorf("got %v; gone: %v", err, ctx.Err())
	}
	if account, err := g.Opened().Account(t.Context(), "acc_1"); err != nil || account.Label != "ada" {
		t.Errorf("got %+v, %v", account, err)
	}
}
