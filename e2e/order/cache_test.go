//go:build long

package order_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestCache: a cache in front of the gate or behind it gives the answer to one
// account neither to requests without a valid key nor to other accounts. Only
// a cache behind the gate whose key has no account shares answers: between
// accounts, and each of them is counted.
func TestCache(t *testing.T) {
	const front, frontRoute, shared, byAccount = "in front", "in front in a route", "behind", "behind by account"
	m := startModules(t, "cache", "token_header X-Api-Key", map[string]string{
		front:      "cache\n\ttollgate\n\tSERVICE",
		frontRoute: "route {\n\t\tcache\n\t\ttollgate\n\t\tSERVICE\n\t}",
		shared:     "route {\n\t\ttollgate\n\t\tcache\n\t\tSERVICE\n\t}",
		byAccount:  "route {\n\t\ttollgate\n\t\tcache {\n\t\t\tkey {\n\t\t\t\theaders Tollgate-Account\n\t\t\t}\n\t\t}\n\t\tSERVICE\n\t}",
	})
	hits := map[string]int{}
	for site := range m.sites {
		for _, header := range []string{"Authorization: Bearer ", "X-Api-Key: "} {
			for _, control := range []string{"max-age=60", "public, max-age=60", "private, max-age=60", "s-maxage=60, max-age=60", ""} {
				for _, vary := range []string{"", "Accept", "Authorization", "Tollgate-Account"} {
					path := "/api/items/" + header[:1] + "?" + url.Values{"Cache-Control": {control}, "Vary": {vary}}.Encode()
					t.Run(site+path, func(t *testing.T) {
						first := m.get(t, site, path, header+m.ada)
						if first.StatusCode != http.StatusOK || !strings.Contains(first.text, `of "ada"`) {
							t.Fatalf("the first call got %d %s", first.StatusCode, first.text)
						}
						seen := m.service.requests()
						for _, without := range []string{"", "Authorization: Bearer no-such-token", "X-Api-Key: no-such-token", "Authorization: "} {
							if got := m.get(t, site, path, without); got.StatusCode != http.StatusUnauthorized || strings.Contains(got.text, "request") || m.service.requests() != seen {
								t.Errorf("with %q: got %d %s, Cache-Status %s", without, got.StatusCode, got.text, got.Header["Cache-Status"])
							}
						}
						other := m.get(t, site, path, header+m.bob)
						if other.StatusCode != http.StatusOK || site != shared && !strings.Contains(other.text, `of "bob"`) {
							t.Errorf("another account got %d %s, Cache-Status %s", other.StatusCode, other.text, other.Header["Cache-Status"])
						}
						again := m.get(t, site, path, header+m.ada)
						if again.StatusCode != http.StatusOK || !strings.Contains(again.text, `of "ada"`) {
							t.Errorf("the second call got %d %s, Cache-Status %s", again.StatusCode, again.text, again.Header["Cache-Status"])
						}
						if again.text == first.text {
							hits[site]++
						}
					})
				}
			}
		}
	}
	for site := range m.sites {
		if t.Logf("%s: %d hits", site, hits[site]); hits[site] == 0 {
			t.Errorf("%s: the cache stored nothing", site)
		}
	}
}

// TestCacheHits: what a hit costs. In front of the gate nothing, and the cache
// serves it also after the key was revoked. Behind the gate a call.
func TestCacheHits(t *testing.T) {
	m := startModules(t, "cache", "", map[string]string{
		"in front": "cache\n\ttollgate\n\tSERVICE",
		"behind":   "route {\n\t\ttollgate\n\t\tcache\n\t\tSERVICE\n\t}",
	})
	for site, want := range map[string]struct {
		used    int64 // of three calls
		revoked int
	}{"in front": {1, http.StatusOK}, "behind": {3, http.StatusUnauthorized}} {
		key := m.key(t, "ada", site)
		const path = "/api/items/hit?Cache-Control=max-age%3D600"
		before, seen := m.used(t, "ada"), m.service.requests()
		for range 3 {
			if got := m.get(t, site, path, "Authorization: Bearer "+key.Token); got.StatusCode != http.StatusOK {
				t.Errorf("%s: got %d %s", site, got.StatusCode, got.text)
			}
		}
		if used, asked := m.used(t, "ada")-before, m.service.requests()-seen; used != want.used || asked != 1 {
			t.Errorf("%s: three calls counted %d and asked the service %d times, want %d and once", site, used, asked, want.used)
		}
		m.Tollgate("key", "revoke", "ada", key.ID)
		if got := m.get(t, site, path, "Authorization: Bearer "+key.Token); got.StatusCode != want.revoked {
			t.Errorf("%s, with the revoked key: got %d %s, want %d", site, got.StatusCode, got.text, want.revoked)
		}
	}
}
