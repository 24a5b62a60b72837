package assertion

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gateKeys are the keys of a gate, and how often it was asked.
type gateKeys struct {
	secrets atomic.Pointer[[]string]
	fail    atomic.Bool
	asked   atomic.Int64
	failed  atomic.Int64
}

// follow returns a verifier with the old secret, which asks for other keys.
func (g *gateKeys) follow(t *testing.T) *Verifier {
	v := NewVerifier(only("api.example.com"), time.Now, newKey(t, secret))
	v.FetchKeys(func(context.Context) (KeySet, error) {
		g.asked.Add(1)
		time.Sleep(time.Second)
		if g.fail.Load() {
			return KeySet{}, errors.New("the gate is away")
		}
		var keys []*Key
		for _, s := range *g.secrets.Load() {
			keys = append(keys, newKey(t, s))
		}
		return NewKeySet(keys...), nil
	}, func(error) { g.failed.Add(1) })
	return v
}

// A gate signs with a new secret. Services with the old one accept that from
// the first request on, and ask the gate once.
func TestFetchKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := strings.Repeat("n", 64)
		g := &gateKeys{}
		g.secrets.Store(&[]string{next, secret})
		v := g.follow(t)
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				by := ada
				by.Account = strings.Repeat("a", i+1)
				text := newSigner(t, next).Call([32]byte{byte(i)}, "api.example.com", by, time.Now())
				if _, err := v.Verify(text, Call); err != nil {
					t.Errorf("call %d with the new key: %v", i, err)
				}
			})
		}
		group.Wait()
		old := newSigner(t, secret).Call([32]byte{}, "api.example.com", ada, time.Now())
		if _, err := v.Verify(old, Call); err != nil {
			t.Errorf("a call with the old key: %v", err)
		}
		if n := g.asked.Load(); n != 1 {
			t.Errorf("asked the gate %d times, want 1", n)
		}
	})
}

// Threat: forged assertions with unknown keys make a service flood the gate,
// or are accepted while the gate does not answer.
func TestForgedKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gateKeys{}
		g.secrets.Store(&[]string{secret})
		g.fail.Store(true)
		v := g.follow(t)
		for _, at := range []time.Time{time.Now().Add(-Lifetime - Leeway), time.Now().Add(Leeway + time.Second)} {
			forged := newSigner(t, strings.Repeat("f", 64)).Call([32]byte{}, "api.example.com", ada, at)
			if _, err := v.Verify(forged, Call); !errors.Is(err, ErrKey) || g.asked.Load() != 0 {
				t.Errorf("of %v: got %v, and asked the gate %d times", at, err, g.asked.Load())
			}
		}
		forged := newSigner(t, strings.Repeat("f", 64)).Call([32]byte{}, "api.example.com", ada, time.Now())
		for range 100 {
			if _, err := v.Verify(forged, Call); !errors.Is(err, ErrKey) {
				t.Fatalf("got %v, want ErrKey", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n, m := g.asked.Load(), g.failed.Load(); n != 1 || m != 1 {
			t.Errorf("asked %d times and reported %d failures in a second, want 1", n, m)
		}
		g.fail.Store(false)
		time.Sleep(fetchPause)
		if _, err := v.Verify(forged, Call); !errors.Is(err, ErrKey) {
			t.Errorf("got %v, want ErrKey", err)
		}
		real := newSigner(t, secret).Call([32]byte{}, "api.example.com", ada, time.Now())
		if _, err := v.Verify(real, Call); err != nil {
			t.Errorf("a call with the key of the secret: %v", err)
		}
	})
}

// A set with a key of another kind changes nothing.
func TestFetchedKeysAreChecked(t *testing.T) {
	t.Parallel()
	right := NewKeySet(newKey(t, secret)).Keys[0]
	for name, key := range map[string]PublicKey{
		"curve":    {Curve: "P-384", X: right.X, Y: right.Y, ID: "other"},
		"no curve": {X: right.X, Y: right.Y, ID: "other"},
		"length":   {Curve: "P-256", X: "AAAA", Y: "AAAA", ID: "other"},
		"no y":     {Curve: "P-256", X: right.X, ID: "other"},
		"base64":   {Curve: "P-256", X: right.X + "!", Y: right.Y, ID: "other"},
		"no point": {Curve: "P-256", X: right.Y, Y: right.X, ID: "other"},
		"infinity": {Curve: "P-256", X: strings.Repeat("A", 43), Y: strings.Repeat("A", 43), ID: "other"},
	} {
		if _, err := key.decode(); !errors.Is(err, errNotP256) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
