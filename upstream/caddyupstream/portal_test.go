package caddyupstream_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// A link of the gate opens the pages in its own process once, also after a
// reload.
func TestPortal(t *testing.T) {
	r := start(t, setup{})
	gate := caddymodule.ControlClient()
	if _, err := gate.PutAccount(t.Context(), "shop-7", api.AccountChange{Plan: new("starter"), Label: new("Shop 7")}); err != nil {
		t.Fatal(err)
	}
	link, err := gate.Portal(t.Context(), "shop-7")
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(link.URL, "http://localhost:8080")
	entered := r.ask(t, http.MethodGet, path, "")
	if entered.status != http.StatusSeeOther || entered.header.Get("Location") != "/settings/keys" {
		t.Fatalf("got %d %v %s", entered.status, entered.header, entered.body)
	}
	cookie, _, _ := strings.Cut(entered.header.Get("Set-Cookie"), ";")
	for range 2 {
		if got := r.ask(t, http.MethodGet, "/settings/keys", "", "Cookie: "+cookie); got.status != http.StatusOK || !strings.Contains(got.body, "Shop 7") {
			t.Errorf("got %d %s", got.status, got.body)
		}
		if got := r.ask(t, http.MethodGet, path, ""); got.status != http.StatusGone {
			t.Errorf("the link again: got %d, want 410", got.status)
		}
		if err := r.reload(); err != nil {
			t.Fatal(err)
		}
	}
}
