//go:build long

package order_test

import (
	"fmt"
	"testing"
)

// zone is rate_limit with a zone that admits one request of each key.
func zone(name, key string) string {
	return fmt.Sprintf("rate_limit {\n\t\t\tzone %s {\n\t\t\t\tkey %s\n\t\t\t\twindow 1h\n\t\t\t\tevents 1\n\t\t\t}\n\t\t}", name, key)
}

// TestRateLimitKeys: only behind the gate does rate_limit know the account.
// Its own order puts it in front; the option order puts it behind.
func TestRateLimitKeys(t *testing.T) {
	const account, authorization = "{http.auth.user.id}", "{http.request.header.Authorization}"
	type want struct{ ada, again, bob int }
	for name, c := range map[string]struct {
		global string
		sites  map[string]string
		want   map[string]want
	}{
		"without order": {sites: map[string]string{
			"account":       zone("account", account) + "\n\ttollgate\n\tSERVICE",
			"authorization": zone("authorization", authorization) + "\n\ttollgate\n\tSERVICE",
			"client":        zone("client", "{client_ip}") + "\n\ttollgate\n\tSERVICE",
		}, want: map[string]want{"account": {200, 429, 429}, "authorization": {200, 429, 200}, "client": {200, 429, 429}}},
		"order after tollgate": {global: "order rate_limit after tollgate", sites: map[string]string{
			"account": zone("account", account) + "\n\ttollgate\n\tSERVICE",
		}, want: map[string]want{"account": {200, 429, 200}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := startModules(t, c.global, "", c.sites)
			for site, want := range c.want {
				for i, call := range []struct {
					token string
					want  int
				}{{m.ada, want.ada}, {m.ada, want.again}, {m.bob, want.bob}} {
					if got := m.get(t, site, "/api/items/1", "Authorization: Bearer "+call.token); got.StatusCode != call.want {
						t.Errorf("%s: call %d got %d %s, want %d", site, i+1, got.StatusCode, got.text, call.want)
					}
				}
			}
		})
	}
}
