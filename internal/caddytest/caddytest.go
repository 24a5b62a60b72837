// Package caddytest runs Caddy with a gate from a Caddyfile in the process of a
// test. Caddy has one configuration for the process: no test that loads one runs in
// parallel with others.
package caddytest

import (
	"crypto/rand"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile" // the adapter
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/intercept"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	_ "github.com/caddyserver/caddy/v2/modules/metrics"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Secret is a secret of a gate.
const Secret = "0123456789abcdef0123456789abcdef"

// Adapt returns the JSON of a Caddyfile.
func Adapt(text string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// Load loads a Caddyfile.
func Load(text string) error {
	config, err := Adapt(text)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

// Validate provisions a configuration in JSON, and does not start it.
func Validate(config []byte) error {
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		return err
	}
	return caddy.Validate(&c)
}

// Start loads a Caddyfile until the test ends.
func Start(t testing.TB, text string) *Client {
	t.Helper()
	c := NewClient()
	t.Cleanup(func() {
		c.CloseIdleConnections()
		Stop(t)
	})
	if err := c.Load(text); err != nil {
		t.Fatalf("starting Caddy: %v", err)
	}
	return c
}

// Stop stops Caddy.
func Stop(t testing.TB) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Errorf("stopping Caddy: %v", err)
	}
}

// InForce is the app in force, or nil.
func InForce() *caddymodule.App {
	running, err := caddy.ActiveContext().AppIfConfigured("tollgate")
	if err != nil {
		return nil
	}
	return running.(*caddymodule.App)
}

// App is the app in force.
func App(t testing.TB) *caddymodule.App {
	t.Helper()
	app := InForce()
	if app == nil {
		t.Fatal("there is no app")
	}
	return app
}

// Store is the store of the app in force.
func Store(t testing.TB) *storetest.Store {
	t.Helper()
	db, err := App(t).Book()
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	return &storetest.Store{Book: db}
}

// Account makes an account on a plan, and a key to it.
func Account(t testing.TB, id, plan string, abilities ...string) (bearer string) {
	t.Helper()
	if _, err := storetest.PutAccount(t.Context(), Store(t).Book, store.Account{ID: id, Plan: plan, CreatedAt: time.Now()}); err != nil {
		t.Fatalf("making an account: %v", err)
	}
	return Key(t, store.Key{ID: "key_" + id, Account: id, Name: "ci", Abilities: abilities})
}

// Key makes a key.
func Key(t testing.TB, key store.Key) (bearer string) {
	t.Helper()
	tok, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key.Kind, key.CreatedAt = token.Key, time.Now()
	if err := Store(t).CreateKey(t.Context(), key, tok.Hash()); err != nil {
		t.Fatalf("making a key: %v", err)
	}
	return tok.Reveal()
}

// Used is how many calls of an account were counted today, whatever the time zone.
func Used(t testing.TB, account, endpoint string) (used int64) {
	t.Helper()
	today := calendar.UTCDay(time.Now())
	counts, err := Store(t).Counts(t.Context(), account, "", today-1, today+1)
	if err != nil {
		t.Fatalf("reading counts: %v", err)
	}
	for _, c := range counts {
		if c.Endpoint == endpoint {
			used += c.Used
		}
	}
	return used
}

// FreePort is a port that a site can listen on across reloads.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := strconv.Atoi(stack.FreePorts(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Eventually waits for a condition.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never came: %s", what)
}
