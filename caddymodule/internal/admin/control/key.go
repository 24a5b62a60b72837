package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/keyring"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// loginName is the default name of a login token, for lists and recent
// calls.
const loginName = "login"

type createKeyInput struct {
	Account accountID `path:"account"`
	Body    api.KeyRequest
}

type listKeysInput struct {
	Account accountID `path:"account"`
	Kind    string    `query:"kind" enum:"key,login" default:"key" doc:"Whether to list keys or login tokens."`
	Include string    `query:"include" enum:"revoked" doc:"Includes the revoked ones that are still kept."`
}

type keyInput struct {
	Account accountID `path:"account"`
	ID      string    `path:"id" minLength:"1" maxLength:"64" doc:"The key's id."`
}

type rotateKeyInput struct {
	Account accountID `path:"account"`
	ID      string    `path:"id" minLength:"1" maxLength:"64" doc:"The key's id."`
	Body    *api.Rotation
}

func (s *server) registerKeys(router huma.API) {
	const path = "/tollgate/accounts/{account}/keys"
	huma.Register(router, operation(huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: path, Tags: []string{"keys"}, DefaultStatus: http.StatusCreated,
		Summary: "Create a key or a login token",
		Description: "Only this answer has the token. An account that does not exist is created on plan free if that plan gives access. " +
			fmt.Sprintf("An account has at most %d live login tokens: one more ends the oldest.", store.MaxLiveLogins),
	}, http.StatusForbidden, http.StatusConflict), answer(s, s.createKey))
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: path, Tags: []string{"keys"},
		Summary:     "List an account's keys, or its login tokens, without secrets",
		Description: "Oldest first. Expired and revoked keys are kept for 90 days, at most the last 1000 of an account. The list has revoked keys only with include=revoked, and no expired login tokens.",
	}), answer(s, s.listKeys))
	huma.Register(router, operation(huma.Operation{
		OperationID: "change-key", Method: http.MethodPatch, Path: path + "/{id}", Tags: []string{"keys"},
		Summary:     "Change a live key",
		Description: "The token stays the same. Members that the body omits do not change. The change applies to the next call. A login token cannot be changed.",
	}, http.StatusForbidden, http.StatusConflict), answer(s, s.changeKey))
	huma.Register(router, operation(huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: path + "/{id}", Tags: []string{"keys"},
		Summary:     "Revoke a key or a login token",
		Description: "It is refused from the next call on. Revoking it again changes nothing.",
	}), perform(s, s.revokeKey))
	huma.Register(router, operation(huma.Operation{
		OperationID: "end-logins", Method: http.MethodDelete, Path: "/tollgate/accounts/{account}/logins", Tags: []string{"keys"},
		Summary:     "End all login tokens of an account",
		Description: "Revokes all that exist at this moment, in one commit. They are refused from the next call on. Keys do not change. An account without login tokens is no error.",
	}), perform(s, s.endLogins))
	huma.Register(router, operation(huma.Operation{
		OperationID: "rotate-key", Method: http.MethodPost, Path: path + "/{id}/rotate", Tags: []string{"keys"}, DefaultStatus: http.StatusCreated,
		Summary:     "Replace a live key",
		Description: "The new key has the same name, abilities, expiry, limits and addresses, and continues the counts of its limits. The old key ends at once, or after the overlap.",
	}, http.StatusForbidden, http.StatusConflict), answer(s, s.rotateKey))
}

func (s *server) createKey(ctx context.Context, with *session, in *createKeyInput) (api.IssuedKey, error) {
	key := store.Key{Account: string(in.Account), Kind: token.Key, Name: cleanName(in.Body.Name), CreatedAt: round(with.now)}
	if in.Body.Kind == token.Login.String() {
		key.Kind = token.Login
		if key.Name == "" {
			key.Name = loginName
		}
	}
	if !validName(key.Name) {
		return api.IssuedKey{}, errInvalidName
	}
	if err := with.fillKey(&key, in.Body); err != nil {
		return api.IssuedKey{}, err
	}
	account, err := with.ensureAccount(ctx, string(in.Account))
	if err != nil {
		return api.IssuedKey{}, err
	}
	plan, err := with.entitled(account)
	if err != nil {
		return api.IssuedKey{}, err
	}
	if key.Abilities, err = grantable(account.Plan, plan.Abilities, in.Body.Abilities); err != nil {
		return api.IssuedKey{}, err
	}
	if key.Kind == token.Login {
		// A login is not in the audit log: it changes nothing that an operator
		// set, and anyone with a password could fill the log.
		return issue(key, func(key store.Key, hash token.Hash) (store.Key, error) {
			return key, with.store.CreateKey(ctx, key, hash)
		})
	}
	ring, err := with.ring(ctx, account.ID)
	if err != nil {
		return api.IssuedKey{}, err
	}
	return issue(key, func(key store.Key, hash token.Hash) (store.Key, error) {
		if err := ring.Create(key); err != nil {
			return key, err
		}
		creation := keyChange(api.KeyCreate, "", event.KeyCreated, nil, &key)
		if err := with.record(ctx, creation); err != nil {
			return key, err
		}
		if err := with.store.CreateKey(ctx, key, hash); err != nil {
			return key, err
		}
		with.tell(ctx, creation)
		return key, nil
	})
}

// ring returns the keys of an account. A change is tried on them first, so
// that one that is refused is not recorded.
func (with *session) ring(ctx context.Context, account string) (ring keyring.Ring, err error) {
	keys, err := with.store.ListKeys(ctx, account)
	for i := range keys {
		ring = append(ring, &keys[i])
	}
	return ring, err
}

// fillKey sets the expiry, the limits and the addresses of a new key from a
// request.
func (with *session) fillKey(key *store.Key, request api.KeyRequest) (err error) {
	if key.ExpiresAt, err = with.expiry(request.ExpiresAt, request.TTL, key.CreatedAt); err != nil {
		return err
	}
	if key.Limits, err = with.keyLimits(request.Limits); err != nil {
		return err
	}
	if key.Addresses, err = addresses(request.Addresses); err != nil {
		return err
	}
	switch {
	case request.Abilities != nil && len(request.Abilities) == 0:
		return errNoAbility
	case key.Kind == token.Login && key.Restriction() != nil:
		return invalidRequest("A login token has no limits and no addresses of its own.")
	case key.Kind == token.Login && key.ExpiresAt.IsZero():
		key.ExpiresAt = key.CreatedAt.Add(with.policy.LoginTTL)
	}
	return nil
}

// entitled returns the plan of an account that may have keys.
func (with *session) entitled(account store.Account) (*policy.Plan, error) {
	plan := with.policy.Plan(account.Plan)
	switch {
	case account.Disabled:
		return nil, errAccountDisabled
	case !plan.HasAccess():
		return nil, errPlanRequired
	}
	return plan, nil
}

// grantable returns the abilities of a key: the requested ones, or all that
// are allowed.
func grantable(plan string, allowed, requested []string) ([]string, error) {
	if requested == nil {
		return slices.Clone(allowed), nil
	}
	for _, ability := range requested {
		if !slices.Contains(allowed, ability) {
			return nil, notEntitled(plan, ability)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(requested))), nil
}

// issue gives a key its id and its secret and stores it with keep, which
// returns the key as stored. Only the answer has the secret.
func issue(key store.Key, keep func(store.Key, token.Hash) (store.Key, error)) (api.IssuedKey, error) {
	secret, err := token.New(key.Kind, rand.Reader)
	if err != nil {
		return api.IssuedKey{}, err
	}
	if key.ID, err = token.NewID(rand.Reader); err != nil {
		return api.IssuedKey{}, err
	}
	key.Hint = secret.String()
	if key, err = keep(key, secret.Hash()); err != nil {
		return api.IssuedKey{}, err
	}
	return api.IssuedKey{Key: showKey(key), Token: secret.Reveal()}, nil
}

// listKeys omits expired login tokens, which the store deletes later.
func (s *server) listKeys(ctx context.Context, with *session, in *listKeysInput) (api.KeyList, error) {
	if _, err := with.store.Account(ctx, string(in.Account)); err != nil {
		return api.KeyList{}, err
	}
	keys, err := with.store.ListKeys(ctx, string(in.Account))
	if err != nil {
		return api.KeyList{}, err
	}
	list := api.KeyList{Keys: []api.Key{}}
	for _, key := range keys {
		expired := !key.ExpiresAt.IsZero() && !with.now.Before(key.ExpiresAt)
		switch {
		case key.Kind.String() != in.Kind:
		case !key.RevokedAt.IsZero() && in.Include != "revoked":
		case expired && key.Kind == token.Login:
		default:
			list.Keys = append(list.Keys, showKey(key))
		}
	}
	return list, nil
}

func (s *server) revokeKey(ctx context.Context, with *session, in *keyInput) error {
	account := string(in.Account)
	before, err := with.key(ctx, account, in.ID)
	if err != nil {
		return err
	}
	if !before.RevokedAt.IsZero() {
		// Again: an earlier revocation may not be on the disk.
		if err := with.store.RevokeKey(ctx, account, in.ID, with.now); err != nil {
			return err
		}
		return with.tellAgain(ctx, before)
	}
	after := before
	after.RevokedAt = with.now
	revocation := keyChange(api.KeyRevoke, api.LoginRevoke, event.KeyRevoked, &before, &after)
	if err := with.record(ctx, revocation); err != nil {
		return err
	}
	if err := with.store.RevokeKey(ctx, account, in.ID, with.now); err != nil {
		return err
	}
	with.tell(ctx, revocation)
	return nil
}

func (s *server) endLogins(ctx context.Context, with *session, in *accountInput) error {
	if _, err := with.store.Account(ctx, string(in.Account)); err != nil {
		return err
	}
	if err := with.record(ctx, change{action: api.LoginEnd, account: string(in.Account)}); err != nil {
		return err
	}
	return with.store.EndLogins(ctx, string(in.Account), with.now)
}

// rotateKey keeps all abilities of the old key. Those that the plan does
// not include any more have no effect, and work again with a plan that
// includes them. The store copies them, because the old key may change after
// it was read here. Only its kind cannot.
func (s *server) rotateKey(ctx context.Context, with *session, in *rotateKeyInput) (api.IssuedKey, error) {
	var overlap time.Duration
	if in.Body != nil && in.Body.Overlap != "" {
		var err error
		if overlap, err = calendar.ParseDuration(in.Body.Overlap); err != nil {
			return api.IssuedKey{}, invalidRequest("The overlap is not a duration such as 90m, 24h or 7d, at most 36500d.")
		}
	}
	old, err := with.key(ctx, string(in.Account), in.ID)
	if err != nil {
		return api.IssuedKey{}, err
	}
	// Not ensureAccount: the account may have been deleted after its key was
	// read.
	account, err := with.store.Account(ctx, string(in.Account))
	if err != nil {
		return api.IssuedKey{}, err
	}
	if _, err := with.entitled(account); err != nil {
		return api.IssuedKey{}, err
	}
	next := store.Key{Account: old.Account, Kind: old.Kind, CreatedAt: round(with.now)}
	issued, err := issue(next, func(next store.Key, hash token.Hash) (store.Key, error) {
		return with.rotate(ctx, old, next, hash, next.CreatedAt.Add(overlap))
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = errEnded
	case errors.Is(err, store.ErrTooManyKeys):
		err = errNoOverlap
	}
	return issued, err
}

// key returns a key of an account. The error for an unknown one tells whether
// the account or the key is missing.
func (with *session) key(ctx context.Context, account, id string) (store.Key, error) {
	key, err := with.store.Key(ctx, account, id)
	if !errors.Is(err, store.ErrNotFound) {
		return key, err
	}
	if _, err := with.store.Account(ctx, account); err != nil {
		return key, err
	}
	return key, api.ErrNoKey
}

// rotate records and makes a rotation.
func (with *session) rotate(ctx context.Context, old, next store.Key, hash token.Hash, oldEnds time.Time) (store.Key, error) {
	ring, err := with.ring(ctx, old.Account)
	if err != nil {
		return next, err
	}
	after, err := ring.Rotate(old.ID, next, oldEnds)
	if err != nil {
		return next, err
	}
	rotation := keyChange(api.KeyRotate, api.LoginRotate, event.KeyRotated, &old, &after)
	if err := with.record(ctx, rotation); err != nil {
		return next, err
	}
	if next, err = with.store.RotateKey(ctx, old.Account, old.ID, next, hash, oldEnds); err != nil {
		return next, err
	}
	with.tell(ctx, rotation)
	return next, nil
}

func showKey(key store.Key) api.Key {
	shown := api.Key{
		ID:         key.ID,
		Account:    key.Account,
		Kind:       key.Kind.String(),
		Name:       key.Name,
		Root:       key.Root,
		Abilities:  append([]string{}, key.Abilities...),
		Hint:       key.Hint,
		CreatedAt:  round(key.CreatedAt),
		ExpiresAt:  roundOrNil(key.ExpiresAt),
		RevokedAt:  roundOrNil(key.RevokedAt),
		LastUsedAt: roundOrNil(key.LastUsedAt),
		Limits:     showLimits(key.Limits),
		Addresses:  showAddresses(key.Addresses),
	}
	if key.LastUsedFrom.IsValid() {
		shown.LastUsedFrom = new(key.LastUsedFrom.String())
	}
	return shown
}

func roundOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(round(t))
}
