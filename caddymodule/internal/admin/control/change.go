package control

import (
	"context"
	"errors"
	"slices"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

type changeKeyInput struct {
	Account accountID `path:"account"`
	ID      string    `path:"id" minLength:"1" maxLength:"64" doc:"The key's id."`
	Body    api.KeyChange
}

func (s *server) changeKey(ctx context.Context, with *session, in *changeKeyInput) (api.Key, error) {
	wanted, err := with.wantedKey(in.Body)
	if err != nil {
		return api.Key{}, err
	}
	account, err := with.store.Account(ctx, string(in.Account))
	if err != nil {
		return api.Key{}, err
	}
	key, err := with.changeLiveKey(ctx, account.ID, in.ID, func(key *store.Key) error {
		if key.Kind != token.Key {
			return errEnded
		}
		abilities, err := with.wantedAbilities(account.Plan, key.Abilities, in.Body.Abilities)
		if err != nil {
			return err
		}
		key.Abilities = abilities
		if in.Body.Name.Set {
			key.Name = wanted.Name
		}
		if in.Body.ExpiresAt.Set || in.Body.TTL != "" {
			key.ExpiresAt = wanted.ExpiresAt
		}
		if in.Body.Limits.Set {
			key.Limits = wanted.Limits
		}
		if in.Body.Addresses.Set {
			key.Addresses = wanted.Addresses
		}
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = errEnded
	case errors.Is(err, store.ErrReplaced):
		err = errEnding
	}
	return showKey(key), err
}

// changeLiveKey records a change and makes it in one step. edit may be called
// more than once: first to find out what to record. If the key changes
// after that, it records and tries again.
func (with *session) changeLiveKey(ctx context.Context, account, id string, edit func(*store.Key) error) (key store.Key, err error) {
	var recorded, wanted change
	describe := func(key *store.Key) error {
		before := *key
		err := edit(key)
		wanted = keyChange(api.KeySet, "", "", &before, key)
		return err
	}
	for {
		ring, err := with.ring(ctx, account)
		if err != nil {
			return key, err
		}
		if _, err := ring.Change(id, with.now, describe); err != nil {
			return key, err
		}
		if !wanted.isNothing() {
			if err := with.record(ctx, wanted); err != nil {
				return key, err
			}
		}
		recorded = wanted
		key, err = with.store.ChangeKey(ctx, account, id, with.now, func(key *store.Key) error {
			if err := describe(key); err != nil || wanted.isNothing() || wanted.isSame(recorded) {
				return err
			}
			return errNotRecorded
		})
		if !errors.Is(err, errNotRecorded) {
			return key, err
		}
	}
}

// wantedKey checks the members of a change that depend on no key, and returns
// their values.
func (with *session) wantedKey(change api.KeyChange) (key store.Key, err error) {
	key.Name = cleanName(change.Name.Value)
	switch {
	case change.Name.Set && !validName(key.Name):
		return key, errInvalidName
	case change.Abilities.Set && len(change.Abilities.Value) == 0:
		return key, errNoAbility
	case change.ExpiresAt.Set && change.TTL != "":
		return key, errTwoExpiries
	}
	if key.ExpiresAt, err = with.expiry(change.ExpiresAt.Value, change.TTL, round(with.now)); err != nil {
		return key, err
	}
	if key.Limits, err = with.keyLimits(change.Limits.Value); err != nil {
		return key, err
	}
	key.Addresses, err = addresses(change.Addresses.Value)
	return key, err
}

// wantedAbilities returns the abilities of a key after a change. A key can
// keep abilities that its plan no longer has.
func (with *session) wantedAbilities(plan string, current []string, change api.Change[[]string]) ([]string, error) {
	if !change.Set {
		return current, nil
	}
	allowed := current
	if p := with.policy.Plan(plan); p != nil {
		allowed = slices.Concat(current, p.Abilities)
	}
	return grantable(plan, allowed, change.Value)
}
