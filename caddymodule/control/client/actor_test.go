package client_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
)

// TestActor checks that changes name the person, and that reads do not: they
// have no entry in the audit log.
func TestActor(t *testing.T) {
	t.Parallel()
	var got []string
	handler := controltest.New(t).Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, strings.TrimSpace(r.Method+" "+r.Header.Get(api.ActorHeader)))
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	c, ctx := connect(t, server.URL, controltest.Secret), client.WithActor(t.Context(), "acc_7")
	_, put := c.PutAccount(ctx, "acc_1", api.AccountChange{Plan: new("starter")})
	imported := c.ImportAccounts(ctx, strings.NewReader(`{"account":"acc_2"}`), func(api.LineResult) error { return nil })
	_, read := c.Account(ctx, "acc_1")
	_, listed := c.Audit(ctx, client.AuditFilter{}, "", 0)
	deleted := c.DeleteAccount(ctx, "acc_1")
	for _, err := range []error{put, imported, read, listed, deleted} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"PUT acc_7", "POST acc_7", "GET", "GET", "DELETE acc_7"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
