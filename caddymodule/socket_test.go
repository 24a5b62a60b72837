package caddymodule_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TestClientsBehindASocket: Caddy knows the client behind a Unix socket only
// with trusted_proxies_unix, and only with trusted_proxies_strict does it not
// take an address that the client has written.
func TestClientsBehindASocket(t *testing.T) {
	const unix, strict = "trusted_proxies_unix", "trusted_proxies_unix\ntrusted_proxies_strict"
	// What the proxy sends: what the client has written, and its address.
	const claim, client = "8.8.8.%d, ", "192.0.2.7"
	for _, c := range []struct {
		name, options string
		logins        int // the status of the sixth, from the address of the first five, with another claim each
		other         int // of a login from another address after that
		allowed       int // of a call with a key for the network of the client
		claimed       int // of a call from elsewhere that claims to come from that network
	}{
		{"no option", "", 429, 429, 403, 403},
		{"without strict", unix, 401, 401, 403, 200},
		{"with strict", strict, 429, 401, 200, 403},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "socket") // its path must be short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			socket := filepath.Join(dir, "s")
			s := start(t, setup{zone: calmZone(), upstream: password, global: "servers {\n" + c.options + "\n}", before: "bind unix/" + socket})
			s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			}}
			last := 0
			for i := range 6 {
				last = logIn(t, s, fmt.Sprintf("a%d@example.com", i), false, "X-Forwarded-For: "+fmt.Sprintf(claim, i)+client).status
			}
			if last != c.logins {
				t.Errorf("the sixth login from one address got %d, want %d", last, c.logins)
			}
			if got := logIn(t, s, "b@example.com", false, "X-Forwarded-For: 9.9.9.9, 192.0.2.8"); got.status != c.other {
				t.Errorf("a login from another address got %d, want %d", got.status, c.other)
			}
			id, _ := s.account(t, "small")
			bearer := s.key(t, store.Key{ID: "key_home", Account: id, Name: "home", Abilities: []string{"convert"}, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
			s.upstream.answers(code(http.StatusOK))
			for header, want := range map[string]int{"8.8.8.8, " + client: c.allowed, client + ", 8.8.8.8": c.claimed} {
				got := s.ask(t, "GET", convert, "", "Authorization: Bearer "+bearer, "X-Forwarded-For: "+header)
				if got.status != want || want == http.StatusForbidden && got.code() != "address_not_allowed" {
					t.Errorf("from %s: got %d %s, want %d", header, got.status, got.body, want)
				}
			}
			if c.options == "" {
				recent, err := s.store(t).Recent(t.Context(), id, time.Now())
				if err != nil || len(recent) != 2 || recent[0].From.IsValid() {
					t.Errorf("got recent calls %+v, %v, want no address", recent, err)
				}
			}
		})
	}
}
