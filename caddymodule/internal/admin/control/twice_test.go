package control_test

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
)

// TestAtTheSameTime: requests that make the same change at the same time make
// one entry and one event.
func TestAtTheSameTime(t *testing.T) {
	t.Parallel()
	const requests = 8
	for name, c := range map[string]struct {
		method, target, body string // "" is the key
		event                string
	}{
		"revoke":  {"DELETE", "", "", event.KeyRevoked},
		"rotate":  {"POST", "/rotate", "", event.KeyRotated},
		"delete":  {"DELETE", "/tollgate/accounts/acc_1", "", event.AccountChanged},
		"disable": {"PUT", "/tollgate/accounts/acc_1", `{"disabled":true}`, event.AccountChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGate(t)
			g.account(t, "acc_1", "starter")
			target := c.target
			if target == "" || target == "/rotate" {
				target = keysPath + "/" + g.issue(t, `{"name":"ci"}`).ID + target
			}
			entries, events := g.entries(t), len(g.Published())
			statuses := make([]int, requests)
			var running sync.WaitGroup
			for i := range requests {
				running.Go(func() { statuses[i] = g.call(t, c.method, target, c.body).Code })
			}
			running.Wait()
			if !slices.ContainsFunc(statuses, func(status int) bool { return status < http.StatusMultipleChoices }) {
				t.Errorf("no request succeeded: %v", statuses)
			}
			published := g.Published()[events:]
			if len(published) != 1 || published[0].Type != c.event || g.entries(t) != entries+1 {
				t.Errorf("got %d entries and the events %v, want one %s", g.entries(t)-entries, published, c.event)
			}
		})
	}
}

// TestRevokeRotated: a key that ended because it was rotated has no event of
// a revocation, and neither has a login token.
func TestRevokeRotated(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	key := keysPath + "/" + g.issue(t, `{"name":"ci"}`).ID
	g.Advance(time.Second)
	g.must(t, http.StatusCreated, "POST", key+"/rotate", `{}`)
	login := keysPath + "/" + g.issue(t, `{"kind":"login"}`).ID
	events := len(g.Published())
	for _, ended := range []string{key, login, login} {
		if got := g.call(t, "DELETE", ended, "").Code; got != http.StatusNoContent {
			t.Errorf("got %d", got)
		}
	}
	if published := g.Published()[events:]; len(published) != 0 {
		t.Errorf("got events %+v, want none", published)
	}
}
