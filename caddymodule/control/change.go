package control

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/text/unicode/norm"

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
	var before store.Key
	key, err := with.store.ChangeKey(ctx, account.ID, in.ID, with.now, func(key *store.Key) error {
		before = *key
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
	if err != nil {
		return api.Key{}, err
	}
	return showKey(key), with.audit(ctx, change{
		action: api.KeySet, account: key.Account, target: key.ID, before: showKey(before), after: showKey(key),
	})
}

// wantedKey checks the members of a change that depend on no key, and returns
// their values.
func (with *session) wantedKey(change api.KeyChange) (key store.Key, err error) {
	key.Name = norm.NFC.String(change.Name.Value)
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
