package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// cachedGrant is a grant as it was read, and the epoch of its account before.
type cachedGrant struct {
	store.Grant
	epoch uint64
}

// Grant implements store.Grants.
func (s *Store) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	if grant, found := s.cachedGrant(hash); found && (grant.Until.IsZero() || now.Before(grant.Until)) {
		return grant, nil
	}
	return s.Confirm(ctx, hash, now)
}

// cachedGrant returns the grant of a token or of token.OfAccount, unless this
// gate has changed the account since it was read.
func (s *Store) cachedGrant(hash token.Hash) (grant store.Grant, found bool) {
	cached, found := s.grants.Get(hash)
	cached.Cached = true
	return cached.Grant, found && cached.epoch == s.epoch(cached.Account).Load()
}

// Confirm implements store.Grants.
func (s *Store) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	var known hint
	if old, cached := s.grants.Get(hash); cached {
		known = hint{old.Account, old.Key}
		grant, err := s.readGrant(ctx, known, hash, now)
		if !errors.Is(err, store.ErrNoGrant) {
			return grant, err
		}
		// Another gate may have imported the token into another account.
	}
	of, err := s.hint(ctx, hash)
	if err == nil && of == known {
		err = store.ErrNoGrant
	}
	if err != nil {
		return store.Grant{}, err
	}
	return s.readGrant(ctx, of, hash, now)
}

// GrantAccount implements store.Grants.
func (s *Store) GrantAccount(ctx context.Context, account string, fresh bool) (store.Grant, error) {
	hash := token.OfAccount(account)
	if grant, found := s.cachedGrant(hash); found && !fresh {
		return grant, nil
	}
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	return s.readGrant(ctx, hint{account: account}, hash, time.Time{})
}

// readGrant reads a grant and keeps it in the cache.
func (s *Store) readGrant(ctx context.Context, of hint, hash token.Hash, now time.Time) (store.Grant, error) {
	epoch := s.epoch(of.account).Load()
	sent := time.Now()
	reply, err := s.client.runWithin(ctx, grantScript, s.stateKeys(of.account), []string{keyField(of.key)})
	if err != nil {
		return store.Grant{}, err
	}
	if at, err := reply[0].AsInt64(); err == nil {
		s.client.clock.read(at, sent, time.Now())
	}
	grant, err := decodeGrant(of, hash, reply, now)
	if err != nil {
		s.grants.Remove(hash)
		return store.Grant{}, err
	}
	s.grants.Add(hash, cachedGrant{grant, epoch})
	return grant, nil
}

// decodeGrant returns what a token or an account grants by the reply of
// grantScript.
func decodeGrant(of hint, hash token.Hash, reply []rueidis.RedisMessage, now time.Time) (store.Grant, error) {
	if len(reply) < 3 {
		return store.Grant{}, damaged("account "+of.account, errShort)
	}
	state, err := decodeAccount(of.account, reply[1])
	if err != nil {
		return store.Grant{}, err
	}
	switch {
	case !state.exists() && of.key == "":
		return store.Grant{}, store.ErrNotFound
	case !state.exists() || state.account.Disabled:
		return store.Grant{}, store.ErrNoGrant
	}
	grant := store.Grant{Account: of.account, Plan: state.account.Plan, Overrides: state.account.Overrides}
	if grant.Handle, grant.Version, err = state.numbers(); err != nil {
		return store.Grant{}, err
	}
	if of.key == "" {
		return grant, nil
	}
	if reply[2].IsNil() {
		return store.Grant{}, store.ErrNoGrant
	}
	text, err := reply[2].ToString()
	if err != nil {
		return store.Grant{}, damaged("key "+of.key, err)
	}
	key, written, err := decodeKey(of.account, of.key, text)
	if err != nil {
		return store.Grant{}, err
	}
	if written != hash || !key.Live(now) {
		return store.Grant{}, store.ErrNoGrant
	}
	grant.Key, grant.KeyName, grant.Abilities = key.ID, key.Name, strings.Join(key.Abilities, " ")
	grant.Restriction, grant.Until = key.Restriction(), key.ExpiresAt
	return grant, nil
}

// numbers returns the random numbers of the account.
func (s *state) numbers() (handle store.Handle, version uint64, err error) {
	number, err := strconv.ParseUint(s.handle, 10, 64)
	if err == nil {
		version, err = strconv.ParseUint(s.version, 10, 64)
	}
	if err != nil {
		return 0, 0, damaged("account "+s.account.ID, err)
	}
	return store.Handle(number), version, nil
}
