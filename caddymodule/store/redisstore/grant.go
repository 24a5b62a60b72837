package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// hint says which account and key a token belongs to. It never changes.
type hint struct{ account, key string }

// cachedGrant is a grant as it was read, and the epoch of its account before.
type cachedGrant struct {
	store.Grant
	epoch uint64
}

// Grant implements store.Grants.
func (s *Store) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	cached, found := s.grants.Get(hash)
	if found && cached.epoch == s.epoch(cached.Account).Load() && (cached.Until.IsZero() || now.Before(cached.Until)) {
		cached.Cached = true
		return cached.Grant, nil
	}
	return s.Confirm(ctx, hash, now)
}

// Confirm implements store.Grants.
func (s *Store) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	of, err := s.hint(ctx, hash)
	if err != nil {
		return store.Grant{}, err
	}
	epoch := s.epoch(of.account).Load()
	sent := time.Now()
	reply, err := s.client.run(ctx, grantScript, s.stateKeys(of.account), []string{keyField(of.key)})
	if err != nil {
		return store.Grant{}, err
	}
	if at, err := reply[0].AsInt64(); err == nil {
		s.client.clock.read(at, sent)
	}
	grant, err := decodeGrant(of, hash, reply, now)
	if err != nil {
		s.grants.Remove(hash)
		return store.Grant{}, err
	}
	s.grants.Add(hash, cachedGrant{grant, epoch})
	return grant, nil
}

// hint finds the account and the key of a token.
func (s *Store) hint(ctx context.Context, hash token.Hash) (hint, error) {
	if known, found := s.hints.Get(hash); found {
		return known, nil
	}
	reply, err := s.client.do(ctx, func(l *link) rueidis.RedisResult {
		return l.Do(ctx, l.B().Get().Key(s.tokenKey(hash)).Build())
	})
	if err != nil {
		return hint{}, err
	}
	if reply.IsNil() {
		return hint{}, store.ErrNoGrant
	}
	text, err := reply.ToString()
	account, key, found := strings.Cut(text, " ")
	if err != nil || !found {
		return hint{}, damaged("a token", err)
	}
	known := hint{account, key}
	s.hints.Add(hash, known)
	return known, nil
}

// decodeGrant returns what a token grants by the reply of grantScript.
func decodeGrant(of hint, hash token.Hash, reply []rueidis.RedisMessage, now time.Time) (store.Grant, error) {
	if len(reply) < 9 || reply[8].IsNil() {
		return store.Grant{}, store.ErrNoGrant
	}
	state, err := decodeAccount(of.account, reply[1:8])
	if err != nil {
		return store.Grant{}, err
	}
	text, err := reply[8].ToString()
	if err != nil {
		return store.Grant{}, damaged("key "+of.key, err)
	}
	key, written, err := decodeKey(of.account, of.key, text)
	if err != nil {
		return store.Grant{}, err
	}
	if !state.exists() || state.account.Disabled || written != hash || !key.Live(now) {
		return store.Grant{}, store.ErrNoGrant
	}
	handle, err := strconv.ParseUint(state.handle, 10, 64)
	if err != nil {
		return store.Grant{}, damaged("account "+of.account, err)
	}
	version, err := strconv.ParseUint(state.version, 10, 64)
	if err != nil {
		return store.Grant{}, damaged("account "+of.account, err)
	}
	return store.Grant{
		Account: of.account, Plan: state.account.Plan, Key: key.ID, KeyName: key.Name,
		Abilities: strings.Join(key.Abilities, " "), Overrides: state.account.Overrides,
		Restriction: key.Restriction(), Until: key.ExpiresAt, Handle: store.Handle(handle), Version: version,
	}, nil
}
