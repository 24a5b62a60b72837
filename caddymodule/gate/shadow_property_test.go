package gate_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TestShadowPredicts: enforce refuses the requests that shadow reported, and
// no others, for the same reasons and with the same counts.
func TestShadowPredicts(t *testing.T) {
	t.Parallel()
	worlds := map[policy.Mode]*world{policy.Shadow: newMode(t, policy.Shadow), policy.Enforce: newMode(t, policy.Enforce)}
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		account := "acc_" + strings.Repeat("x", round)
		bearers := map[policy.Mode]string{}
		for mode, w := range worlds {
			w.set(noon)
			w.refused = nil
			bearers[mode] = w.account(t, account)
		}
		for range rapid.IntRange(1, 30).Draw(r, "calls") {
			method := rapid.SampledFrom([]string{"GET", "GET", "POST", "DELETE", "TRACE"}).Draw(r, "method")
			target := rapid.SampledFrom([]string{convert, convert, "/api/rates/EUR", "/api/batch", "/api/usage", "/api/extra", "/api/x", "/open", "/api//x", "/API/login"}).Draw(r, "target")
			if target == "/api/batch" {
				method = "POST"
			}
			authorization := rapid.SampledFrom([]string{"Bearer ", "Bearer ", "Bearer ", "junk", ""}).Draw(r, "authorization")
			body := rapid.SampledFrom([]string{`{"items":[1,2]}`, `{"items":[1,2,3,4,5,6]}`, "x", strings.Repeat(" ", 70)}).Draw(r, "body")
			fails := rapid.IntRange(0, 5).Draw(r, "fails") == 0
			step := time.Duration(rapid.IntRange(0, 5).Draw(r, "hours")) * time.Hour
			for mode, w := range worlds {
				w.set(w.clock().Add(step))
				w.next = func(rw http.ResponseWriter, _ *http.Request) error {
					if fails {
						return failure(http.StatusBadGateway)
					}
					rw.WriteHeader(http.StatusOK)
					return nil
				}
				headers := []string{"Content-Type: application/json"}
				switch authorization {
				case "":
				case "Bearer ":
					headers = append(headers, "Authorization: Bearer "+bearers[mode])
				default:
					headers = append(headers, "Authorization: "+authorization)
				}
				_, _ = w.ask(method, target, body, headers...) // shadow returns errors of the handler
			}
		}
		shadow, enforce := worlds[policy.Shadow], worlds[policy.Enforce]
		if !slices.Equal(shadow.refused, enforce.refused) {
			r.Fatalf("shadow reported\n%q, enforce refused\n%q", shadow.refused, enforce.refused)
		}
		counts := func(w *world) (list []store.Count) {
			day := w.gate.Policy.Calendar.At(noon).Day
			list, err := w.store.Counts(t.Context(), account, "", day, day+10)
			if err != nil {
				r.Fatal(err)
			}
			slices.SortFunc(list, func(a, b store.Count) int {
				if a.Day != b.Day {
					return int(a.Day) - int(b.Day)
				}
				return strings.Compare(a.Endpoint, b.Endpoint)
			})
			return list
		}
		if a, b := counts(shadow), counts(enforce); !slices.Equal(a, b) {
			r.Fatalf("shadow counted %v, enforce %v", a, b)
		}
	})
}
