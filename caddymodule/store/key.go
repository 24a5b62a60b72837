package store

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Errors of Keys.
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
type Key struct {
	ID         string
	Account    string
	Kind       token.Kind
	Name       string
	Abilities  []string // sorted, without duplicates
	Hint       string
	CreatedAt  time.Time
	ExpiresAt  time.Time
	RevokedAt  time.Time
	LastUsedAt time.Time // at most a minute old
	// LastUsedFrom is the client's address at LastUsedAt, if it is known.
	LastUsedFrom netip.Addr
	// Limits are limits of the key below those of its account: at most one
	// for each endpoint and period, at most MaxKeyLimits.
	Limits []Limit
	// Addresses are the networks that calls may come from: at most
	// MaxAddresses, none to allow all.
	Addresses []netip.Prefix
	// Root is the id of the first key that this one replaces, directly or
	// through others. It is empty for a key that replaces none.
	Root string
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

// EndedAt returns when a key that is not live ended: the earlier one of its
// revocation and its expiry.
func (k *Key) EndedAt() time.Time {
	if k.RevokedAt.IsZero() || !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(k.RevokedAt) {
		return k.ExpiresAt
	}
	return k.RevokedAt
}

// Keys administers tokens of both kinds. When a method returns, its change is
// durable and applies to the next Grant. No later write makes a revoked token
// valid again.
type Keys interface {
	// CreateKey stores a new key under the hash of its token. It returns
	// ErrNotFound for an unknown account. A token.Key is compared with the
	// keys that the store still has: the error is ErrExists if one has the
	// same id, so that no import makes a revoked key live again. It is also
	// compared with the keys that are live at key.CreatedAt: the errors are
	// ErrNameTaken and ErrTooManyKeys. A token.Login has neither error: if the account has
	// MaxLiveLogins live login tokens, the oldest is revoked at
	// key.CreatedAt in the same step.
	//
	// A token is a live key of one account: the error is ErrTokenTaken if
	// another account has a key with this hash that is live at
	// key.CreatedAt, also if that account is disabled. Of concurrent
	// creations in several accounts, at most one succeeds. Once the key of
	// the other account has ended, the token belongs to the new key, and no
	// later change of the old key or its account affects it. No two keys of
	// any accounts have the same id.
	CreateKey(ctx context.Context, key Key, hash token.Hash) error

	// CreateKeys is CreateKey for up to MaxBatch keys of the kind token.Key,
	// with few writes. They are created in their order, each in an atomic step
	// of its own. There is an error or nil for each key; a key with an error
	// is not created, or it is not known whether it is, as after an error of
	// CreateKey.
	CreateKeys(ctx context.Context, keys []StoredKey) []error

	// Holder returns the account that has a key with this hash that is live
	// at a time, also if the account is disabled, or ErrNotFound. It is not
	// from a cache.
	Holder(ctx context.Context, hash token.Hash, at time.Time) (account string, err error)

	// Key returns one key of the account or ErrNotFound.
	Key(ctx context.Context, account, id string) (Key, error)

	// ListKeys returns the account's keys, oldest first, with the revoked
	// and expired keys that the store still has.
	ListKeys(ctx context.Context, account string) ([]Key, error)

	// ChangeKey changes a key that is live at a time, in one atomic step,
	// and returns the key as stored. It calls change with the stored key and
	// stores the Name, Abilities, ExpiresAt, Limits and Addresses that change
	// leaves in it. An error of change aborts the step and is returned as it
	// is. It returns ErrNotFound if the account has no such live key, or if
	// the key has just expired and another account has its token,
	// ErrNameTaken if another live key has the new name, and ErrReplaced if
	// the change makes the key expire later and a live key replaces it.
	//
	// A store may call change more than once. change must not use the store.
	ChangeKey(ctx context.Context, account, id string, at time.Time, change func(key *Key) error) (Key, error)

	// RevokeKey revokes a key at a time that is not in the future. It does
	// not change a revoked key. It returns ErrNotFound if the account has no
	// such key.
	RevokeKey(ctx context.Context, account, id string, at time.Time) error

	// EndLogins revokes all login tokens of the account at a time that is
	// not in the future, in one step: all live ones or none. It revokes the
	// tokens that exist when it is called, whatever their CreatedAt and
	// ExpiresAt, so that a wrong clock keeps none alive. Tokens that are
	// created afterwards are live. API keys do not change. It returns
	// ErrNotFound for an unknown account.
	EndLogins(ctx context.Context, account string, at time.Time) error

	// RotateKey stores next under hash and ends the live key id at
	// oldEnds, in one step: both or neither. It returns next as stored. The
	// store sets the Root of next and copies its Name, Abilities, ExpiresAt,
	// Limits and Addresses from the old key in that step, so that a
	// concurrent ChangeKey is not lost. The old key expires at oldEnds,
	// unless it expires earlier. If oldEnds is not after next.CreatedAt, the
	// old key is revoked.
	//
	// It returns ErrNotFound if the account has no such live key,
	// ErrReplaced if a live key replaces it, and ErrTooManyKeys if both keys
	// would be live and there is room for one. If there are too many login
	// tokens, the oldest of the others is revoked, as by CreateKey.
	RotateKey(ctx context.Context, account, id string, next Key, hash token.Hash, oldEnds time.Time) (Key, error)
}
