package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
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

// KeyPath is the path of a key. huma reads only exported types that are
// embedded.
type KeyPath struct {
	Account accountID `path:"account"`
	ID      string    `path:"id" minLength:"1" maxLength:"64" doc:"The key's id."`
}

type rotateKeyInput struct {
	KeyPath
	Body *api.Rotation
}

func (s *server) registerKeys(router huma.API) {
	const path = "/tollgate/accounts/{account}/keys"
	huma.Register(router, operation(huma.Operation{
		OperationID: "create-key", Method: http.MethodPost, Path: path, Tags: []string{"keys"}, DefaultStatus: http.StatusCreated,
		Summary: "Create a key or a login token",
		Description: "Only this answer has the token. It makes no account. " +
			fmt.Sprintf("An account has at most %d live login tokens: one more ends the oldest.", store.MaxLiveLogins),
	}, http.StatusForbidden, http.StatusConflict), answer(s, s.createKey))
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: path, Tags: []string{"keys"},
		Summary:     "List an account's keys, or its login tokens, without secrets",
		Description: "Oldest first. Expired and revoked keys are kept for 90 days, at most the last 100 of an account. The list has revoked keys only with include=revoked, and no expired login tokens.",
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
	key := book.Key{Key: store.Key{Account: string(in.Account), Kind: token.Key, Name: cleanName(in.Body.Name), CreatedAt: round(with.now)}}
	if in.Body.Kind == token.Login.String() {
		key.Kind = token.Login
		if key.Name == "" {
			key.Name = loginName
		}
	}
	if !validName(key.Name) {
		return api.IssuedKey{}, errInvalidName
	}
	if err := with.restrict(&key.Key, in.Body.ExpiresAt, in.Body.TTL, in.Body.Limits, in.Body.Addresses); err != nil {
		return api.IssuedKey{}, err
	}
	switch {
	case in.Body.Abilities != nil && len(in.Body.Abilities) == 0:
		return api.IssuedKey{}, errNoAbility
	case key.Kind == token.Login && key.Restriction() != nil:
		return api.IssuedKey{}, invalidRequest("A login token has no limits and no addresses of its own.")
	case key.Kind == token.Login && key.ExpiresAt.IsZero():
		key.ExpiresAt = key.CreatedAt.Add(with.policy.LoginTTL)
	}
	secret, err := newToken(&key)
	if err != nil {
		return api.IssuedKey{}, err
	}
	err = with.change(ctx, key.Account, func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		plan, err := with.entitled(&a.Account)
		if err != nil {
			return err
		}
		if key.Abilities, err = grantable(a.Plan, plan.Abilities, in.Body.Abilities); err != nil {
			return err
		}
		if err := a.Create(key); err != nil {
			return err
		}
		// A login is not in the audit log: it changes nothing that an operator
		// set, and anyone with a password could fill the log.
		if key.Kind == token.Key {
			with.recordKey(ctx, a, api.KeyCreate, nil, key.Key)
		}
		return nil
	})
	return api.IssuedKey{Key: showKey(key.Key), Token: secret.Reveal()}, err
}

// entitled returns the plan of an account that may have keys.
func (with *session) entitled(account *store.Account) (*policy.Plan, error) {
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
			return nil, apierror.New(http.StatusForbidden, "not_entitled", fmt.Sprintf("The account's plan %s does not include the ability %.64q, only %s.", plan, ability, strings.Join(allowed, ", ")))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(requested))), nil
}

// newToken gives a key an id and a new token. Only the answer to the request
// has the token.
func newToken(key *book.Key) (secret token.Token, err error) {
	if secret, err = token.New(key.Kind, rand.Reader); err != nil {
		return secret, err
	}
	key.Hint, key.Hash = secret.String(), secret.Hash()
	key.ID, err = token.NewID(rand.Reader)
	return secret, err
}

// listKeys omits expired login tokens, which the store deletes later.
func (s *server) listKeys(ctx context.Context, with *session, in *listKeysInput) (api.KeyList, error) {
	keys, err := with.book.Keys(ctx, string(in.Account))
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

// find returns a key of a document. The error tells whether the account or the
// key is missing.
func find(a *book.Account, id string) (*book.Key, error) {
	if !a.Exists {
		return nil, store.ErrNotFound
	}
	if key := a.Find(id); key != nil {
		return key, nil
	}
	return nil, api.ErrNoKey
}

func (s *server) revokeKey(ctx context.Context, with *session, in *KeyPath) error {
	return with.change(ctx, string(in.Account), func(a *book.Account) error {
		key, err := find(a, in.ID)
		if err != nil {
			return err
		}
		before := key.Key
		if err := a.Revoke(in.ID, with.now); err != nil {
			return err
		}
		with.recordKey(ctx, a, api.KeyRevoke, &before, key.Key)
		return nil
	})
}

func (s *server) endLogins(ctx context.Context, with *session, in *accountInput) error {
	return with.change(ctx, string(in.Account), func(a *book.Account) error {
		ends := slices.ContainsFunc(a.Keys, func(k *book.Key) bool { return k.Kind == token.Login && k.RevokedAt.IsZero() })
		if err := a.EndLogins(with.now); err != nil {
			return err
		}
		if ends {
			with.record(ctx, a, api.LoginEnd, "", nil, nil)
		}
		return nil
	})
}

// rotateKey keeps all abilities of the old key. Those that the plan does
// not include any more have no effect, and work again with a plan that
// includes them.
func (s *server) rotateKey(ctx context.Context, with *session, in *rotateKeyInput) (api.IssuedKey, error) {
	var overlap time.Duration
	if in.Body != nil && in.Body.Overlap != "" {
		var err error
		if overlap, err = calendar.ParseDuration(in.Body.Overlap); err != nil {
			return api.IssuedKey{}, invalidRequest("The overlap is not a duration such as 90m, 24h or 7d, at most 36500d.")
		}
	}
	var after store.Key
	var secret token.Token
	err := with.change(ctx, string(in.Account), func(a *book.Account) error {
		old, err := find(a, in.ID)
		if err != nil {
			return err
		}
		if _, err := with.entitled(&a.Account); err != nil {
			return err
		}
		next := book.Key{Key: store.Key{Account: a.ID, Kind: old.Kind, CreatedAt: round(with.now)}}
		if secret, err = newToken(&next); err != nil {
			return err
		}
		before := old.Key
		after, err = a.Rotate(in.ID, next, next.CreatedAt.Add(overlap))
		switch {
		case errors.Is(err, store.ErrNotFound):
			return errEnded
		case errors.Is(err, store.ErrTooManyKeys):
			return errNoOverlap
		case err != nil:
			return err
		}
		with.recordKey(ctx, a, api.KeyRotate, &before, after)
		return nil
	})
	return api.IssuedKey{Key: showKey(after), Token: secret.Reveal()}, err
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
