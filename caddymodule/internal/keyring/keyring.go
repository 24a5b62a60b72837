// Package keyring has the rules for the keys of one account that are all in
// memory: which names and numbers of keys are allowed, and what a rotation, a
// change or a revocation does. See store.Keys for the rules.
package keyring

import (
	"cmp"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Ring has the keys of one account, oldest first. It is not safe for
// concurrent use. After an error it may have changed: do not store it.
type Ring []*store.Key

// Find returns the key with this id, or nil.
func (r Ring) Find(id string) *store.Key {
	for _, k := range r {
		if k.ID == id {
			return k
		}
	}
	return nil
}

// live returns the key with this id if it is live at a time.
func (r Ring) live(id string, at time.Time) (*store.Key, error) {
	k := r.Find(id)
	if k == nil || !k.Live(at) {
		return nil, store.ErrNotFound
	}
	return k, nil
}

// Create adds a key.
func (r *Ring) Create(key store.Key) error { return r.add(key, nil, false) }

// Rotate adds next, which replaces a key, and returns it as stored.
func (r *Ring) Rotate(id string, next store.Key, oldEnds time.Time) (store.Key, error) {
	old, err := r.live(id, next.CreatedAt)
	if err != nil {
		return store.Key{}, err
	}
	if r.isReplaced(old, next.CreatedAt) {
		return store.Key{}, store.ErrReplaced
	}
	next.Root, next.Name, next.Abilities, next.ExpiresAt = old.CountsAs(), old.Name, old.Abilities, old.ExpiresAt
	next.Limits, next.Addresses = old.Limits, old.Addresses
	overlap := oldEnds.After(next.CreatedAt)
	if err := r.add(next, old, overlap); err != nil {
		return store.Key{}, err
	}
	switch {
	case !overlap:
		old.RevokedAt = next.CreatedAt
	case old.ExpiresAt.IsZero() || oldEnds.Before(old.ExpiresAt):
		old.ExpiresAt = oldEnds
	}
	return next, nil
}

// add adds a key. The key replaces old unless that is nil; with overlap, both
// are live for some time.
func (r *Ring) add(key store.Key, old *store.Key, overlap bool) error {
	var others []*store.Key // live, of the same kind, oldest first
	for _, k := range *r {
		if k != old && k.Kind == key.Kind && k.Live(key.CreatedAt) {
			others = append(others, k)
		}
	}
	live := len(others)
	if overlap {
		live++
	}
	switch {
	case key.Kind == token.Login:
		for _, k := range others[:max(0, live-store.MaxLiveLogins+1)] {
			k.RevokedAt = key.CreatedAt
		}
	case r.Find(key.ID) != nil:
		return store.ErrExists
	case old == nil && slices.ContainsFunc(others, func(k *store.Key) bool { return k.Name == key.Name }):
		return store.ErrNameTaken
	case live >= store.MaxLiveKeys:
		return store.ErrTooManyKeys
	}
	*r = append(*r, &key)
	r.Sort()
	return nil
}

// Sort sorts the keys, oldest first.
func (r Ring) Sort() {
	slices.SortFunc(r, func(a, b *store.Key) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
}

// isReplaced tells whether a key that is live at a time replaces old.
func (r Ring) isReplaced(old *store.Key, at time.Time) bool {
	return slices.ContainsFunc(r, func(k *store.Key) bool { return k.Live(at) && k.Replaces(old) })
}

// Change changes a key that is live at a time, and returns it.
func (r Ring) Change(id string, at time.Time, change func(*store.Key) error) (store.Key, error) {
	k, err := r.live(id, at)
	if err != nil {
		return store.Key{}, err
	}
	left := *k
	left.Abilities, left.Limits, left.Addresses = slices.Clone(k.Abilities), slices.Clone(k.Limits), slices.Clone(k.Addresses)
	if err := change(&left); err != nil {
		return store.Key{}, err
	}
	if left.Outlives(k) && r.isReplaced(k, at) {
		return store.Key{}, store.ErrReplaced
	}
	for _, other := range r {
		if k.Kind == token.Key && left.Name != k.Name && other.Kind == token.Key && other.Live(at) && other.Name == left.Name {
			return store.Key{}, store.ErrNameTaken
		}
	}
	k.Name, k.Abilities, k.ExpiresAt = left.Name, left.Abilities, left.ExpiresAt
	k.Limits, k.Addresses = left.Limits, left.Addresses
	return *k, nil
}

// Revoke revokes a key.
func (r Ring) Revoke(id string, at time.Time) error {
	k := r.Find(id)
	if k == nil {
		return store.ErrNotFound
	}
	if k.RevokedAt.IsZero() {
		k.RevokedAt = at
	}
	return nil
}

// EndLogins revokes all login tokens.
func (r Ring) EndLogins(at time.Time) {
	for _, k := range r {
		if k.Kind == token.Login && k.RevokedAt.IsZero() {
			k.RevokedAt = at
		}
	}
}
