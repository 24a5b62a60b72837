package control_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
)

// request is a method, a target and a body.
type request [3]string

// atOnce makes two requests at the same time and returns their statuses.
func (g *gate) atOnce(t *testing.T, first, second request) (statuses [2]int) {
	t.Helper()
	var done sync.WaitGroup
	for i, r := range []request{first, second} {
		done.Go(func() { statuses[i] = g.call(t, r[0], r[1], r[2]).Code })
	}
	done.Wait()
	return statuses
}

// TestAtOnce makes two changes of acc_1 at the same time, many times. Both have
// an answer that is true, and neither undoes the other.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	const path = "/tollgate/accounts/acc_1"
	const ok, created, gone, missing, conflict, forbidden = http.StatusOK, http.StatusCreated, http.StatusNoContent, http.StatusNotFound, http.StatusConflict, http.StatusForbidden
	for name, c := range map[string]struct {
		// The requests, for a key of the account and for another one.
		first, second func(key, other string) request
		want          [][2]int // the statuses that can be
		plan          string   // that remains; empty if the account is deleted
		// remains checks what else remains. alive tells whether the token of
		// the key opens something.
		remains func(t *testing.T, g *gate, id string, statuses [2]int, alive bool) bool
	}{
		"two members of an account": {
			func(_, _ string) request { return request{"PUT", path, `{"plan":"business"}`} },
			func(_, _ string) request { return request{"PUT", path, `{"disabled":true}`} },
			[][2]int{{ok, ok}}, "business",
			func(t *testing.T, g *gate, _ string, _ [2]int, alive bool) bool {
				return g.must(t, ok, "GET", path, "")["disabled"] == true && !alive
			},
		},
		"two overrides": {
			func(_, _ string) request { return request{"PUT", limitsPath + "/convert/day", `{"limit":7}`} },
			func(_, _ string) request { return request{"PUT", limitsPath + "/convert/month", `{"limit":7}`} },
			[][2]int{{ok, ok}}, "starter",
			func(t *testing.T, g *gate, _ string, _ [2]int, _ bool) bool { return len(g.limits(t)) == 2 },
		},
		"an override and a plan": {
			func(_, _ string) request { return request{"PUT", limitsPath + "/all/day", `{"limit":7}`} },
			func(_, _ string) request { return request{"PUT", path, `{"plan":"business"}`} },
			[][2]int{{ok, ok}}, "business",
			func(t *testing.T, g *gate, _ string, _ [2]int, _ bool) bool { return len(g.limits(t)) == 1 },
		},
		"two members of a key": {
			func(key, _ string) request { return request{"PATCH", key, `{"name":"renamed"}`} },
			func(key, _ string) request { return request{"PATCH", key, `{"addresses":["10.0.0.1"]}`} },
			[][2]int{{ok, ok}}, "starter",
			func(t *testing.T, g *gate, id string, _ [2]int, alive bool) bool {
				return g.key(t, id).Name == "renamed" && len(g.key(t, id).Addresses) == 1 && alive
			},
		},
		"two keys with one name": {
			func(key, _ string) request { return request{"PATCH", key, `{"name":"renamed"}`} },
			func(_, other string) request { return request{"PATCH", other, `{"name":"renamed"}`} },
			[][2]int{{ok, conflict}, {conflict, ok}}, "starter", nil,
		},
		"a change and a revocation": {
			func(key, _ string) request { return request{"PATCH", key, `{"expires_at":"2127-01-01T00:00:00Z"}`} },
			func(key, _ string) request { return request{"DELETE", key, ""} },
			[][2]int{{ok, gone}, {missing, gone}}, "starter",
			func(t *testing.T, g *gate, _ string, _ [2]int, alive bool) bool {
				return !alive && slices.Equal(g.names(t, ""), []string{"other"})
			},
		},
		"two rotations": {
			func(key, _ string) request { return request{"POST", key + "/rotate", ""} },
			func(key, _ string) request { return request{"POST", key + "/rotate", `{"overlap":"24h"}`} },
			[][2]int{{created, missing}, {created, conflict}, {missing, created}, {conflict, created}}, "starter", nil,
		},
		"a rotation and a change": {
			func(key, _ string) request { return request{"POST", key + "/rotate", `{"overlap":"1h"}`} },
			func(key, _ string) request { return request{"PATCH", key, `{"name":"renamed"}`} },
			[][2]int{{created, ok}, {created, conflict}}, "starter",
			func(t *testing.T, g *gate, _ string, statuses [2]int, alive bool) bool {
				return alive && (statuses[1] == conflict || slices.Contains(g.names(t, ""), "renamed"))
			},
		},
		"a rotation and a plan": {
			func(key, _ string) request { return request{"POST", key + "/rotate", ""} },
			func(_, _ string) request { return request{"PUT", path, `{"plan":"free"}`} },
			[][2]int{{created, ok}, {forbidden, ok}}, "free",
			func(_ *testing.T, _ *gate, _ string, statuses [2]int, alive bool) bool {
				return alive == (statuses[0] == forbidden)
			},
		},
		"a rotation and a deletion": {
			func(key, _ string) request { return request{"POST", key + "/rotate", ""} },
			func(_, _ string) request { return request{"DELETE", path, ""} },
			[][2]int{{created, gone}, {missing, gone}}, "",
			func(_ *testing.T, _ *gate, _ string, _ [2]int, alive bool) bool { return !alive },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, rounds := newGate(t), 5
			if storetest.Long() {
				rounds = 100
			}
			for range rounds {
				g.must(t, ok, "PUT", path, `{"plan":"starter","disabled":false}`)
				key, other := g.issue(t, `{"name":"ci"}`), g.issue(t, `{"name":"other"}`)
				g.Advance(time.Second)
				got := g.atOnce(t, c.first(keysPath+"/"+key.ID, keysPath+"/"+other.ID), c.second(keysPath+"/"+key.ID, keysPath+"/"+other.ID))
				if !slices.Contains(c.want, got) {
					t.Fatalf("got %v, want one of %v", got, c.want)
				}
				account := g.call(t, "GET", path, "")
				if plan := fmt.Sprintf(`"plan":%q`, c.plan); (c.plan == "") != (account.Code == missing) || c.plan != "" && !strings.Contains(account.Body.String(), plan) {
					t.Fatalf("the account is %s", account.Body)
				}
				if _, alive := g.opens(t, key.Token); c.remains != nil && !c.remains(t, g, key.ID, got, alive) {
					t.Fatalf("a change was lost, after %v", got)
				}
				g.call(t, "DELETE", path, "")
			}
		})
	}
}

// TestFirstKeyDuringAChangeOfPlan checks that the creation of an account
// with its first key does not put it back on plan free.
func TestFirstKeyDuringAChangeOfPlan(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.giveFreeAccess(t)
	for i := range 10 {
		path := fmt.Sprintf("/tollgate/accounts/acc_%d", i)
		g.atOnce(t, request{"POST", path + "/keys", `{"name":"ci"}`}, request{"PUT", path, `{"plan":"starter"}`})
		if got := g.must(t, http.StatusOK, "GET", path, "")["plan"]; got != "starter" {
			t.Fatalf("the account is on plan %v", got)
		}
	}
}
