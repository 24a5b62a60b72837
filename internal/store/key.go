package store

import (
	"cmp"
	"errors"
	"net/netip"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Errors of changes of keys.
var (
	// ErrNameTaken means that a live key of the account has that name.
	ErrNameTaken = errors.New("a live key has this name")

	// ErrExists means that the account has or had a key with that id.
	ErrExists = errors.New("a key with this id exists")

	// ErrTokenTaken means that another account has a live key with that
	// token, or may be creating it at the same time.
	ErrTokenTaken = errors.New("the token is a live key of another account")

	// ErrReplaced means that a live key replaces the key.
	ErrReplaced = errors.New("a live key replaces this key")

	// ErrTooManyKeys means that the account has MaxLiveKeys live keys.
	ErrTooManyKeys = errors.New("too many live keys")
)

// Key is a token without its secret: an API key or a login token. A zero time
// is absent.
//
// A new field needs one line: the next number of StoredKey in its cbor tag, and
// omitempty or omitzero, so that keys without the field stay as they are.
// Numbers are never used again.
type Key struct {
	ID string `cbor:"1,keyasint" json:"id"`
	// Account and Kind are known from where the key is kept.
	Account   string     `cbor:"-" json:"-"`
	Kind      token.Kind `cbor:"-" json:"-"`
	Name      string     `cbor:"2,keyasint,omitempty" json:"name"`
	Abilities []string   `cbor:"3,keyasint,omitempty" json:"abilities,omitempty"` // sorted, without duplicates
	Hint      string     `cbor:"4,keyasint,omitempty" json:"hint,omitempty"`
	CreatedAt time.Time  `cbor:"5,keyasint" json:"created_at"`
	ExpiresAt time.Time  `cbor:"6,keyasint,omitzero" json:"expires_at,omitzero"`
	RevokedAt time.Time  `cbor:"7,keyasint,omitzero" json:"revoked_at,omitzero"`
	// LastUsedAt is at most a minute old.
	LastUsedAt time.Time `cbor:"-" json:"-"`
	// LastUsedFrom is the client's address at LastUsedAt, if it is known.
	LastUsedFrom netip.Addr `cbor:"-" json:"-"`
	// Limits are limits of the key below those of its account: at most one
	// for each endpoint and period, at most MaxKeyLimits.
	Limits []Limit `cbor:"8,keyasint,omitempty" json:"limits,omitempty"`
	// Addresses are the networks that calls may come from: at most
	// MaxAddresses, none to allow all.
	Addresses []netip.Prefix `cbor:"9,keyasint,omitempty" json:"addresses,omitempty"`
	// Root is the id of the first key that this one replaces, directly or
	// through others. It is empty for a key that replaces none.
	Root string `cbor:"10,keyasint,omitempty" json:"root,omitempty"`
	// Declared tells that the configuration file has the key: only a load of a
	// configuration changes it.
	Declared bool `cbor:"12,keyasint,omitempty" json:"declared,omitempty"`
}

// CountsAs returns the key that the calls of k count for: a key that replaces
// another one continues its counts.
func (k *Key) CountsAs() string { return cmp.Or(k.Root, k.ID) }

// Replaces tells whether k replaces old, directly or through other keys.
func (k *Key) Replaces(old *Key) bool {
	return k.CreatedAt.After(old.CreatedAt) && k.CountsAs() == old.CountsAs()
}

// Outlives tells whether k expires later than other.
func (k *Key) Outlives(other *Key) bool {
	return !other.ExpiresAt.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(other.ExpiresAt))
}

// Restriction returns what k restricts, nil if it restricts nothing.
func (k *Key) Restriction() *Restriction {
	if len(k.Limits)+len(k.Addresses) == 0 {
		return nil
	}
	return &Restriction{CountsAs: k.CountsAs(), Limits: k.Limits, Addresses: k.Addresses}
}

// Live tells whether the key is neither revoked nor expired at now.
func (k Key) Live(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// NoGrant returns why the key grants nothing at now, or "". disabled tells
// whether its account is.
func (k *Key) NoGrant(now time.Time, disabled bool) NoGrant {
	switch {
	case !k.RevokedAt.IsZero():
		return Revoked
	case !k.Live(now):
		return Expired
	case disabled:
		return Disabled
	}
	return ""
}

// EndedAt returns when a key that is not live ended: the earlier one of its
// revocation and its expiry.
func (k *Key) EndedAt() time.Time {
	if k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(k.RevokedAt) {
		return k.ExpiresAt
	}
	return k.RevokedAt
}
