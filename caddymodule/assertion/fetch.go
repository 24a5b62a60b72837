package assertion

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	// fetchTimeout bounds a fetch of keys. Requests wait for it.
	fetchTimeout = 2 * time.Second

	// fetchPause is the time between two fetches, so that forged assertions
	// do not keep the gate busy.
	fetchPause = 2 * time.Second
)

// FetchKeys makes the verifier fetch the keys of the gate when an assertion
// names a key that it does not know. So the gate can begin to sign with a new
// secret while the service still has the old one. Call it before the first
// Verify. failed gets the errors of fetch.
func (v *Verifier) FetchKeys(fetch func(context.Context) (KeySet, error), failed func(error)) {
	v.fetch, v.failed = fetch, failed
}

// key returns the public key of an id. It fetches no key for a payload that is
// expired anyway.
func (v *Verifier) key(id string, unproven []byte) (*ecdsa.PublicKey, bool) {
	if key, known := (*v.keys.Load())[id]; known || v.fetch == nil || id == "" {
		return key, known
	}
	var claims Claims
	if json.Unmarshal(unproven, &claims) != nil || !v.isTimely(claims) {
		return nil, false
	}
	v.fetching <- struct{}{}
	defer func() { <-v.fetching }()
	// Another request may have fetched it meanwhile.
	if key, known := (*v.keys.Load())[id]; known || v.now().Sub(v.fetched).Abs() < fetchPause {
		return key, known
	}
	if err := v.fetchNow(); err != nil {
		v.failed(fmt.Errorf("fetching the keys of the gate: %w", err))
	}
	v.fetched = v.now()
	key, known := (*v.keys.Load())[id]
	return key, known
}

func (v *Verifier) fetchNow() error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	set, err := v.fetch(ctx)
	if err != nil {
		return err
	}
	keys := maps.Clone(v.own)
	for _, k := range set.Keys {
		public, err := k.decode()
		if err != nil {
			return err
		}
		keys[k.ID] = public
	}
	v.keys.Store(&keys)
	return nil
}

var errNotP256 = errors.New("a key is not a P-256 key")

func (k *PublicKey) decode() (*ecdsa.PublicKey, error) {
	x, errX := base64.RawURLEncoding.DecodeString(k.X)
	y, errY := base64.RawURLEncoding.DecodeString(k.Y)
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
	if k.Curve != "P-256" || errors.Join(errX, errY, err) != nil {
		return nil, errNotP256
	}
	return public, nil
}
