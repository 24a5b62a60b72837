package redisstore_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// customer is an account that other gates call while the first one changes it.
type customer struct {
	*fleet
	id      string
	plan    string
	live    string // id of the live key
	numbers int
}

// next returns a name that was not used before.
func (c *customer) next(what string) string {
	c.numbers++
	return fmt.Sprintf("%s_%s_%d", what, c.id, c.numbers)
}

func (c *customer) put(account store.Account) {
	c.Helper()
	account.ID = c.id
	_, err := storetest.PutAccount(c.Context(), c.gates[0].Book, account)
	check(c, err)
	c.plan = account.Plan
}

// wantDead checks that the other gates refuse a token.
func (c *customer) wantDead(what, id string) {
	c.Helper()
	for i, gate := range c.gates[1:] {
		if admitted, grant, err := decide(c.Context(), gate, hashOf(id), c.call(), daily(1<<40)); !errors.Is(err, store.ErrNoGrant) {
			c.Errorf("%s: store %d: got %v, %+v, %v, want %v", what, i+1, admitted, grant, err, store.ErrNoGrant)
		}
	}
}

// wantLive checks that the other gates decide by the current plan and key.
func (c *customer) wantLive(what string) {
	c.Helper()
	for i, gate := range c.gates[1:] {
		admitted, grant, err := decide(c.Context(), gate, hashOf(c.live), c.call(), daily(1<<40))
		if !admitted || err != nil || grant.Plan != c.plan || grant.Key != c.live {
			c.Errorf("%s: store %d: got %v, %+v, %v, want the plan %s and the key %s", what, i+1, admitted, grant, err, c.plan, c.live)
		}
	}
}

// changes are what an operator does to an account. Each leaves it with a live key.
var changes = map[string]func(*customer){
	"revocations": func(c *customer) {
		old := c.live
		c.newKey()
		check(c, c.gates[0].RevokeKey(c.Context(), c.id, old, time.Now()))
		c.wantDead("a revoked key", old)
		c.wantLive("a new key")
	},
	"rotations": func(c *customer) {
		old, now := c.live, time.Now()
		c.live = c.next("key")
		_, err := c.gates[0].RotateKey(c.Context(), c.id, old, store.Key{ID: c.live, Account: c.id, Kind: token.Key, CreatedAt: now}, hashOf(c.live), now)
		check(c, err)
		c.wantDead("a rotated key", old)
		c.wantLive("the key after a rotation")
	},
	"disabled accounts": func(c *customer) {
		c.put(store.Account{Plan: c.plan, Disabled: true})
		c.wantDead("a disabled account", c.live)
		c.put(store.Account{Plan: c.plan})
		c.wantLive("an enabled account")
	},
	"changed plans": func(c *customer) {
		c.put(store.Account{Plan: c.next("plan")})
		c.wantLive("a new plan")
	},
	"deleted accounts": func(c *customer) {
		old := c.live
		check(c, c.gates[0].DeleteAccount(c.Context(), c.id))
		c.wantDead("a deleted account", old)
		c.put(store.Account{Plan: c.next("plan"), CreatedAt: time.Now()})
		c.wantDead("a key of a deleted account", old)
		c.newKey()
		c.wantLive("an account that was created again")
	},
}

func (c *customer) newKey() {
	c.live = c.next("key")
	newKey(c, c.gates[0], c.id, c.live)
}

// TestChangesAreExact changes accounts through one store while two others call
// with their tokens. Once a change has returned, each call is decided by it.
func TestChangesAreExact(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redisstore.Options{URL: redistest.Start(t).URL()})
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &customer{fleet: &fleet{TB: t, gates: f.gates, day: f.day}, id: "acc_" + fmt.Sprint(len(name)), plan: "starter"}
			newAccount(t, c.gates[0], c.id)
			c.live = "key_" + c.id
			var live atomic.Value
			live.Store(c.live)
			var done atomic.Bool
			var load sync.WaitGroup
			for i := range 4 {
				load.Go(func() {
					for !done.Load() {
						_, _, err := decide(t.Context(), c.gates[1+i%2], hashOf(live.Load().(string)), c.call(), daily(1<<40))
						if err != nil && !errors.Is(err, store.ErrNoGrant) && !errors.Is(err, store.ErrChanged) {
							t.Errorf("a call: %v", err)
						}
					}
				})
			}
			defer load.Wait()
			defer done.Store(true)
			for range times(2000) {
				change(c)
				live.Store(c.live)
			}
		})
	}
}
