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

func (s *Server) serveKeys() {
	Handle(s, api.CreateKey, createKey)
	Handle(s, api.ListKeys, listKeys)
	Handle(s, api.ChangeKey, changeKey)
	Perform(s, api.RevokeKey, revokeKey)
	Perform(s, api.EndLogins, endLogins)
	Handle(s, api.RotateKey, rotateKey)
}

func createKey(ctx context.Context, with *Session, in *api.KeyCreation) (api.IssuedKey, error) {
	key := book.Key{Key: store.Key{Account: in.Account, Kind: token.Key, Name: CleanName(in.Body.Name), CreatedAt: Round(with.Now)}}
	if in.Body.Kind == token.Login.String() {
		key.Kind = token.Login
		if key.Name == "" {
			key.Name = loginName
		}
	}
	if !ValidName(key.Name) {
		return api.IssuedKey{}, ErrInvalidName
	}
	if err := with.restrict(&key.Key, in.Body.ExpiresAt, in.Body.TTL, in.Body.Limits, in.Body.Addresses); err != nil {
		return api.IssuedKey{}, err
	}
	switch {
	case in.Body.Abilities != nil && len(in.Body.Abilities) == 0:
		return api.IssuedKey{}, ErrNoAbility
	case key.Kind == token.Login && key.Restriction() != nil:
		return api.IssuedKey{}, InvalidRequest("A login token has no limits and no addresses of its own.")
	case key.Kind == token.Login && key.ExpiresAt.IsZero():
		key.ExpiresAt = key.CreatedAt.Add(with.Policy.LoginTTL)
	}
	var secret token.Token
	err := with.Change(ctx, key.Account, func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		plan, err := with.Entitled(&a.Account)
		if err != nil {
			return err
		}
		if key.Abilities, err = Grantable(a.Plan, plan.Abilities, in.Body.Abilities); err != nil {
			return err
		}
		if secret, err = newToken(&key, plan.Word); err != nil {
			return err
		}
		if err := a.Create(key); err != nil {
			return err
		}
		// A login is not in the audit log: it changes nothing that an operator
		// set, and anyone with a password could fill the log.
		if key.Kind == token.Key {
			with.RecordKey(ctx, a, api.KeyCreate, nil, key.Key)
		}
		return nil
	})
	return api.IssuedKey{Key: ShowKey(key.Key), Token: secret.Reveal()}, err
}

// Entitled returns the plan of an account that may have keys.
func (with *Session) Entitled(account *store.Account) (*policy.Plan, error) {
	plan := with.Policy.Plan(account.Plan)
	switch {
	case account.Disabled:
		return nil, ErrAccountDisabled
	case !plan.HasAccess():
		return nil, errPlanRequired
	}
	return plan, nil
}

// Grantable returns the abilities of a key: the requested ones, or all that
// are allowed.
func Grantable(plan string, allowed, requested []string) ([]string, error) {
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
func newToken(key *book.Key, word token.Word) (secret token.Token, err error) {
	if secret, err = word.New(key.Kind, rand.Reader); err != nil {
		return secret, err
	}
	key.Hint, key.Hash = secret.String(), secret.Hash()
	key.ID, err = token.NewID(rand.Reader)
	return secret, err
}

// listKeys omits expired login tokens, which the store deletes later.
func listKeys(ctx context.Context, with *Session, in *api.KeyQuery) (api.KeyList, error) {
	keys, err := with.Book.Keys(ctx, in.Account)
	if err != nil {
		return api.KeyList{}, err
	}
	list := api.KeyList{Keys: []api.Key{}}
	for _, key := range keys {
		expired := !key.ExpiresAt.IsZero() && !with.Now.Before(key.ExpiresAt)
		switch {
		case key.Kind.String() != in.Kind:
		case !key.RevokedAt.IsZero() && in.Include != "revoked":
		case expired && key.Kind == token.Login:
		default:
			list.Keys = append(list.Keys, ShowKey(key))
		}
	}
	return list, nil
}

// Find returns a key of a document. The error tells whether the account or the
// key is missing.
func Find(a *book.Account, id string) (*book.Key, error) {
	if !a.Exists {
		return nil, store.ErrNotFound
	}
	if key := a.Find(id); key != nil {
		return key, nil
	}
	return nil, api.ErrNoKey
}

func revokeKey(ctx context.Context, with *Session, in *api.OfKey) error {
	return with.Change(ctx, in.Account, func(a *book.Account) error {
		key, err := Find(a, in.ID)
		if err != nil {
			return err
		}
		before := key.Key
		if err := a.Revoke(in.ID, with.Now); err != nil {
			return err
		}
		with.RecordKey(ctx, a, api.KeyRevoke, &before, key.Key)
		return nil
	})
}

func endLogins(ctx context.Context, with *Session, in *api.OfAccount) error {
	return with.Change(ctx, in.Account, func(a *book.Account) error {
		ends := slices.ContainsFunc(a.Keys, func(k *book.Key) bool { return k.Kind == token.Login && k.RevokedAt.IsZero() })
		if err := a.EndLogins(with.Now); err != nil {
			return err
		}
		if ends {
			with.Record(ctx, a, api.LoginEnd, "", nil, nil)
		}
		return nil
	})
}

// rotateKey keeps all abilities of the old key. Those that the plan does
// not include any more have no effect, and work again with a plan that
// includes them.
func rotateKey(ctx context.Context, with *Session, in *api.KeyRotation) (api.IssuedKey, error) {
	var overlap time.Duration
	if in.Body != nil && in.Body.Overlap != "" {
		var err error
		if overlap, err = calendar.ParseDuration(in.Body.Overlap); err != nil {
			return api.IssuedKey{}, InvalidRequest("The overlap is not a duration such as 90m, 24h or 7d, at most 36500d.")
		}
	}
	var after store.Key
	var secret token.Token
	err := with.Change(ctx, in.Account, func(a *book.Account) error {
		old, err := Find(a, in.ID)
		if err != nil {
			return err
		}
		plan, err := with.Entitled(&a.Account)
		if err != nil {
			return err
		}
		next := book.Key{Key: store.Key{Account: a.ID, Kind: old.Kind, CreatedAt: Round(with.Now)}}
		if secret, err = newToken(&next, plan.Word); err != nil {
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
		with.RecordKey(ctx, a, api.KeyRotate, &before, after)
		return nil
	})
	return api.IssuedKey{Key: ShowKey(after), Token: secret.Reveal()}, err
}

// ShowKey returns a key as the API shows it.
func ShowKey(key store.Key) api.Key {
	shown := api.Key{
		ID:         key.ID,
		Account:    key.Account,
		Kind:       key.Kind.String(),
		Name:       key.Name,
		Root:       key.Root,
		Abilities:  append([]string{}, key.Abilities...),
		Hint:       key.Hint,
		CreatedAt:  Round(key.CreatedAt),
		ExpiresAt:  roundOrNil(key.ExpiresAt),
		RevokedAt:  roundOrNil(key.RevokedAt),
		LastUsedAt: roundOrNil(key.LastUsedAt),
		Limits:     showLimits(key.Limits),
		Addresses:  showAddresses(key.Addresses),
		Declared:   key.Declared,
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
	return new(Round(t))
}
