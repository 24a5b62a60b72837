package gate_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// caching caches grants for ever, as a store of several gates could. It refuses
// calls whose grant is from before the last change.
type caching struct {
	gate.Store

	mu       sync.Mutex
	grants   map[token.Hash]store.Grant
	version  uint64
	unstable bool // each Take meets a change
	confirms int
	until    []time.Time // of the calls
	ends     time.Time   // of the keys
}

func (c *caching) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	c.mu.Lock()
	grant, found := c.grants[hash]
	c.mu.Unlock()
	if found {
		grant.Cached = true
		return grant, nil
	}
	return c.read(ctx, hash, now)
}

func (c *caching) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	c.mu.Lock()
	c.confirms++
	c.mu.Unlock()
	return c.read(ctx, hash, now)
}

func (c *caching) read(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	grant, err := c.Store.Grant(ctx, hash, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		grant.Version, grant.Until = c.version, c.ends
		c.grants[hash] = grant
	}
	return grant, err
}

func (c *caching) check(call store.Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = append(c.until, call.Until)
	if c.unstable {
		c.version++
	}
	if call.Version != c.version {
		return store.ErrChanged
	}
	return nil
}

func (c *caching) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	if err := c.check(call); err != nil {
		return false, err
	}
	return c.Store.Take(ctx, call, limits, rooms)
}

func (c *caching) Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	if err := c.check(call); err != nil {
		return err
	}
	return c.Store.Rooms(ctx, call, limits, rooms)
}

// newCachingWorld returns a world behind a cache that has the grant of a token,
// and a function that makes a change behind the back of the cache.
func newCachingWorld(t *testing.T, config func(*policy.Config)) (w *world, c *caching, bearer string, change func(func())) {
	t.Helper()
	w = newWorld(t, config)
	bearer = w.account(t, "acc_1")
	c = &caching{Store: w.store, grants: map[token.Hash]store.Grant{}, version: 1}
	w.gate.Store = func() (gate.Store, error) { return c, nil }
	if got := w.get(t, convert, bearer); got.Code != http.StatusOK {
		t.Fatalf("the first call: got %d %s", got.Code, got.Body)
	}
	return w, c, bearer, func(f func()) {
		t.Helper()
		f()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.version++
	}
}

func revoke(t *testing.T, w *world) {
	t.Helper()
	if err := w.db.RevokeKey(t.Context(), "acc_1", "key_acc_1", noon); err != nil {
		t.Fatal(err)
	}
}

func changeKey(change func(*store.Key)) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		if _, err := w.db.ChangeKey(t.Context(), "acc_1", "key_acc_1", noon, func(k *store.Key) error { change(k); return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOutdatedGrant: a cached grant never decides alone. What another gate has
// changed decides the next call.
func TestOutdatedGrant(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*testing.T, *world)
		status int
		code   string
		want   int64 // calls
	}{
		"disabled":            {disable, http.StatusUnauthorized, `"invalid_token"`, 1},
		"downgraded":          {onPlan("free"), http.StatusForbidden, `"plan_required"`, 1},
		"other plan":          {onPlan("other"), http.StatusOK, "", 2},
		"revoked":             {revoke, http.StatusUnauthorized, `"invalid_token"`, 1},
		"bound to an address": {changeKey(func(k *store.Key) { k.Addresses = networks("198.51.100.0/24") }), http.StatusForbidden, `"address_not_allowed"`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, bearer, change := newCachingWorld(t, nil)
			change(func() { test.change(t, w) })
			if got := w.get(t, convert, bearer); got.Code != test.status || !strings.Contains(got.Body.String(), test.code) {
				t.Errorf("got %d %s, want %d %s", got.Code, got.Body, test.status, test.code)
			}
			if n := w.used(t, "acc_1", "convert", noon); n != test.want {
				t.Errorf("counted %d, want %d", n, test.want)
			}
		})
	}
}

// TestCachedRefusal: a refusal by a cached grant is confirmed by one read, and
// withdrawn if the account may call now.
func TestCachedRefusal(t *testing.T) {
	t.Parallel()
	w, c, bearer, change := newCachingWorld(t, nil)
	change(func() { onPlan("free")(t, w) })
	for i := range 3 {
		before := c.confirms
		if got := w.get(t, convert, bearer); got.Code != http.StatusForbidden || c.confirms != before+1 {
			t.Errorf("call %d on a free plan: got %d after %d reads, want 1", i, got.Code, c.confirms-before)
		}
	}
	change(func() { onPlan("small")(t, w) })
	if got := w.get(t, convert, bearer); got.Code != http.StatusOK {
		t.Errorf("after the upgrade: got %d %s", got.Code, got.Body)
	}
}

// TestUnstableAccount: an account that changes at each try does not keep a
// request for ever.
func TestUnstableAccount(t *testing.T) {
	t.Parallel()
	w, c, bearer, _ := newCachingWorld(t, nil)
	c.unstable = true
	w.next = noUpstream(t)
	got := w.get(t, convert, bearer)
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %v %s", got.Code, got.Header(), got.Body)
	}
	if n := w.used(t, "acc_1", "convert", noon); n != 1 {
		t.Errorf("counted %d, want 1", n)
	}
}

// TestUntil: a call counts until the first end of what it was decided by: the
// day, the key, or an override that applies.
func TestUntil(t *testing.T) {
	t.Parallel()
	midnight := time.Date(2126, 11, 21, 0, 0, 0, 0, time.UTC)
	override := func(endpoint string, expires time.Time) store.Override {
		return store.Override{Limit: store.Limit{Endpoint: endpoint, Period: store.Day, Max: 9}, ExpiresAt: expires}
	}
	for _, test := range []struct {
		name      string
		key       time.Time
		overrides []store.Override
		want      time.Time
	}{
		{name: "day", want: midnight},
		{name: "key", key: noon.Add(time.Hour), want: noon.Add(time.Hour)},
		{name: "key of tomorrow", key: midnight.Add(time.Hour), want: midnight},
		{name: "override", overrides: []store.Override{override("convert", noon.Add(2*time.Hour)), override("rates", time.Time{})}, want: noon.Add(2 * time.Hour)},
		{name: "expired override", overrides: []store.Override{override("convert", noon.Add(-time.Hour))}, want: midnight},
	} {
		w := newWorld(t, nil)
		w.account(t, "acc_1")
		w.override(t, "acc_1", test.overrides...)
		bearer := w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "own"})
		c := &caching{Store: w.store, grants: map[token.Hash]store.Grant{}, ends: test.key}
		w.store = c
		if got := w.get(t, convert, bearer); got.Code != http.StatusOK || len(c.until) != 1 || !c.until[0].Equal(test.want) {
			t.Errorf("%s: got %d, until %v, want %v", test.name, got.Code, c.until, test.want)
		}
	}
}

// TestOutdatedGrantWithBody: a call that is decided again reads its body again,
// and the upstream gets all of it.
func TestOutdatedGrantWithBody(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(10)})
	bearer := w.account(t, "acc_1")
	c := &caching{Store: w.store, grants: map[token.Hash]store.Grant{}, version: 1}
	w.gate.Store = func() (gate.Store, error) { return c, nil }
	var got string
	w.next = func(_ http.ResponseWriter, r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		got = string(body)
		return err
	}
	for _, want := range []string{items(3), items(4)} {
		answer, err := w.ask("POST", batchPath, want, "Authorization: Bearer "+bearer, jsonType)
		if err != nil || answer.Code != http.StatusOK || got != want {
			t.Errorf("got %d, %v, body %q, want %q", answer.Code, err, got, want)
		}
		c.mu.Lock()
		c.version++
		c.mu.Unlock()
	}
	if n := w.used(t, "acc_1", "batch", noon); n != 7 {
		t.Errorf("counted %d, want 7", n)
	}
}
