package gate_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// TestShadowFindsToken: a request that is refused before its token is read does
// not take a token past shadow that grants nothing. With a valid token, it
// passes as a call of the account.
func TestShadowFindsToken(t *testing.T) {
	t.Parallel()
	upgrade := []string{"Connection: Upgrade, Tollgate-Account", "Upgrade: x"}
	const own = "Authorization: Bearer BEARER"
	for _, test := range []struct {
		name, target, code string
		status             int
		headers            []string // BEARER is the token
	}{
		{"upgrade", convert, "upgrade_not_allowed", 400, append([]string{own}, upgrade...)},
		{"first of two fields", convert, "invalid_request", 400, []string{own, "Authorization: Basic YTpi"}},
		{"second of two fields", convert, "invalid_request", 400, []string{"Authorization: Bearer junk", own}},
		{"with a token in the query", convert + "?access_token=x", "invalid_request", 400, []string{own}},
		{"all of them", convert + "?access_token=x", "upgrade_not_allowed", 400, append([]string{"Authorization: Bearer junk", own}, upgrade...)},
		{"usage", "/api/usage?access_token=x", "invalid_request", 400, []string{own}},
	} {
		for _, state := range []string{"live", "disabled", "revoked", "unknown", "the store fails"} {
			t.Run(test.name+", "+state, func(t *testing.T) {
				t.Parallel()
				for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
					w := newMode(t, mode)
					bearer := w.account(t, "acc_1")
					account, code, status := "", test.code, test.status
					if mode == policy.Shadow && test.name != "usage" {
						code, status = "invalid_token", 401
						if state == "live" {
							account, code, status = "acc_1", test.code, http.StatusTeapot
						}
					}
					switch state {
					case "disabled":
						disable(t, w)
					case "revoked":
						if err := w.store.RevokeKey(t.Context(), "acc_1", "key_acc_1", noon); err != nil {
							t.Fatal(err)
						}
					case "unknown":
						bearer = newToken(t).Reveal()
					case "the store fails":
						w.store = &flawed{caching: &caching{Store: w.store, grants: map[token.Hash]store.Grant{}}, confirm: store.ErrUnavailable}
						w.get(t, "/api/rates/EUR", bearer) // fills the cache
						if status == 401 {
							account, code, status = "acc_1", "unavailable", 503
						}
					}
					var seen http.Header
					w.next = func(rw http.ResponseWriter, r *http.Request) error {
						seen = r.Header
						rw.WriteHeader(http.StatusTeapot)
						return nil
					}
					w.refused = nil
					var headers []string
					for _, line := range test.headers {
						headers = append(headers, strings.Replace(line, "BEARER", bearer, 1))
					}
					answer, err := w.ask(http.MethodGet, test.target, "", headers...)
					if err != nil || answer.Code != status || len(w.refused) != 1 || !strings.HasPrefix(w.refused[0], account+" ") || !strings.HasSuffix(w.refused[0], " "+code) {
						t.Errorf("%s: got %d, %v, reported %q, want %d, %q %s", mode, answer.Code, err, w.refused, status, account, code)
					}
					if n := w.used(t, "acc_1", "convert", noon); n != 0 {
						t.Errorf("%s: counted %d, want 0", mode, n)
					}
					if status != http.StatusTeapot {
						if seen != nil {
							t.Errorf("%s: the service got %v", mode, seen)
						}
						continue
					}
					checkKnown(t, seen, answer.Header())
					wantUpgrade := ""
					if test.code == "upgrade_not_allowed" {
						wantUpgrade = "Upgrade x"
					}
					if got := strings.TrimSpace(seen.Get("Connection") + " " + seen.Get("Upgrade")); got != wantUpgrade {
						t.Errorf("the service got the upgrade %q, want %q", got, wantUpgrade)
					}
				}
			})
		}
	}
}
