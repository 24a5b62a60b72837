package e2e_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// change is a change by the first gate, and how the other gates answer from
// then on.
type change struct {
	name string
	// make makes the change and returns the token to call with.
	make func(*testing.T, *client.Client, string, api.IssuedKey) string
	want string
}

var changes = []change{
	{"revoked key", func(t *testing.T, c *client.Client, account string, key api.IssuedKey) string {
		must(t, c.RevokeKey(t.Context(), account, key.ID))
		return key.Token
	}, "401 invalid_token"},
	{"old key of a rotation", func(t *testing.T, c *client.Client, account string, key api.IssuedKey) string {
		_, err := c.RotateKey(t.Context(), account, key.ID, api.Rotation{})
		must(t, err)
		return key.Token
	}, "401 invalid_token"},
	{"disabled account", func(t *testing.T, c *client.Client, account string, key api.IssuedKey) string {
		put(t, c, account, api.AccountChange{Disabled: new(true)})
		return key.Token
	}, "401 invalid_token"},
	{"plan without access", func(t *testing.T, c *client.Client, account string, key api.IssuedKey) string {
		put(t, c, account, api.AccountChange{Plan: new("free")})
		return key.Token
	}, "403 plan_required"},
	{"lower limit", func(t *testing.T, c *client.Client, account string, key api.IssuedKey) string {
		_, err := c.SetLimit(t.Context(), account, "rates", "day", api.OverrideRequest{Limit: new(int64(0))})
		must(t, err)
		return key.Token
	}, "429 quota_exceeded"},
	{"deleted account", func(t *testing.T, c *client.Client, account string, key api.IssuedKey) string {
		must(t, c.DeleteAccount(t.Context(), account))
		return key.Token
	}, "401 invalid_token"},
	{"new key of an account that was made again", func(t *testing.T, c *client.Client, account string, _ api.IssuedKey) string {
		must(t, c.DeleteAccount(t.Context(), account))
		put(t, c, account, api.AccountChange{Plan: new("wide")})
		key, err := c.CreateKey(t.Context(), account, api.KeyRequest{Name: "ci"})
		must(t, err)
		return key.Token
	}, "200"},
}

func put(t *testing.T, c *client.Client, account string, change api.AccountChange) {
	t.Helper()
	_, err := c.PutAccount(t.Context(), account, change)
	must(t, err)
}

// knowChanges changes accounts and keys by one gate while
// clients call the others with them. The next call of each other gate is
// decided by the new state, every time.
func (g *gates) knowChanges(t *testing.T) {
	rounds := len(changes)
	if storetest.Long() {
		rounds = 2002
	}
	for round := range rounds {
		if g.knowChange(t, round); t.Failed() {
			return
		}
	}
}

func (g *gates) knowChange(t *testing.T, round int) {
	change := changes[round%len(changes)]
	account := fmt.Sprintf("acc_%d", round)
	key := g.account(t, account, "wide")
	stop := make(chan struct{})
	wait := g.loadOthers(t, key.Token, stop, "200", change.want)
	defer wait() // also after a failure
	defer close(stop)
	for _, s := range g.all[1:] {
		if got := ask(s, key.Token); got != "200" {
			t.Errorf("round %d, %s: got %s before the change", round, change.name, got)
		}
	}
	token := change.make(t, g.control[0], account, key)
	for i, s := range g.all[1:] {
		if got := ask(s, token); got != change.want {
			t.Errorf("round %d, %s: gate %d answers %s, want %s", round, change.name, i+2, got, change.want)
		}
	}
}

// loadOthers calls all gates but the first one from several goroutines until
// stop is closed. The function that it returns waits for them. Calls during a
// change may get one of these answers, or that of a state between.
func (g *gates) loadOthers(t *testing.T, token string, stop <-chan struct{}, want ...string) (wait func()) {
	t.Helper()
	between := []string{"401 invalid_token", "403 plan_required"}
	var group sync.WaitGroup
	for i := range 4 {
		s := g.all[1+i%2]
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := ask(s, token); !slices.Contains(want, got) && !slices.Contains(between, got) {
					t.Errorf("during the change: got %s, want one of %v", got, want)
					return
				}
			}
		})
	}
	return group.Wait
}
