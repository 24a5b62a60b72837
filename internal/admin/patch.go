package admin

import (
	"context"
	"errors"
	"slices"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

func changeKey(ctx context.Context, with *Session, in *api.KeyPatch) (api.Key, error) {
	wanted, err := with.wantedKey(in.Body)
	if err != nil {
		return api.Key{}, err
	}
	err = with.Change(ctx, in.Account, func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		key, err := a.Live(in.ID, with.Now)
		if err != nil || key.Kind != token.Key {
			return errEnded
		}
		before := key.Key
		after, err := a.ChangeKey(in.ID, with.Now, func(key *store.Key) (err error) {
			key.Abilities, err = with.wantedAbilities(a.Plan, key.Abilities, in.Body.Abilities)
			set(&key.Name, in.Body.Name.Set, wanted.Name)
			set(&key.ExpiresAt, in.Body.ExpiresAt.Set || in.Body.TTL != "", wanted.ExpiresAt)
			set(&key.Limits, in.Body.Limits.Set, wanted.Limits)
			set(&key.Addresses, in.Body.Addresses.Set, wanted.Addresses)
			return err
		})
		if err != nil {
			return err
		}
		with.RecordKey(ctx, a, api.KeySet, &before, after)
		return nil
	})
	switch {
	case errors.Is(err, store.ErrReplaced):
		return api.Key{}, errEnding
	case errors.Is(err, store.ErrTokenTaken): // the key has just expired, and its token moved
		return api.Key{}, errEnded
	case err != nil:
		return api.Key{}, err
	}
	key, err := with.Book.Key(ctx, in.Account, in.ID) // with its last use
	return ShowKey(key), err
}

// set sets a value if it is given.
func set[T any](value *T, given bool, wanted T) {
	if given {
		*value = wanted
	}
}

// wantedKey checks the members of a change that depend on no key, and returns
// their values.
func (with *Session) wantedKey(change api.KeyChange) (key store.Key, err error) {
	key.Name = CleanName(change.Name.Value)
	switch {
	case change.Name.Set && !ValidName(key.Name):
		return key, ErrInvalidName
	case change.Abilities.Set && len(change.Abilities.Value) == 0:
		return key, ErrNoAbility
	case change.ExpiresAt.Set && change.TTL != "":
		return key, errTwoExpiries
	}
	return key, with.restrict(&key, change.ExpiresAt.Value, change.TTL, change.Limits.Value, change.Addresses.Value)
}

// wantedAbilities returns the abilities of a key after a change. A key can
// keep abilities that its plan no longer has.
func (with *Session) wantedAbilities(plan string, current []string, change api.Change[[]string]) ([]string, error) {
	if !change.Set {
		return current, nil
	}
	allowed := current
	if p := with.Policy.Plan(plan); p != nil {
		allowed = slices.Concat(current, p.Abilities)
	}
	return Grantable(plan, allowed, change.Value)
}
