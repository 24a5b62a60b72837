package control

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/unicode/norm"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// maxLogins is how many login tokens a list has at the most: the newest.
// More exist only in a store that an earlier version has left, until the
// next login ends them.
const maxLogins = store.MaxLiveLogins + store.MaxEndedKeys

// maxName is how many characters a key's name may have.
const maxName = 64

// loginName is what a login token is called when it is given no name, so
// that lists and recent calls have a word for it.
const loginName = "login"

type createKeyInput struct {
	Account accountID `path:"account"`
	Body    api.KeyRequest
}

type listKeysInput struct {
	Account accountID `path:"account"`
	Kind    string    `query:"kind" enum:"key,login" default:"key" doc:"Whether to list keys or login tokens."`
	Include string    `query:"include" enum:"revoked" doc:"Lists revoked ones too, for as long as they are kept."`
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
		Summary: "Make a key or a login token",
		Description: "The answer is the only place where the token is shown. An account that the gate does not know has the plan free, and is created if that gives access. " +
			fmt.Sprintf("Of login tokens at most %d are live: one more ends the oldest.", store.MaxLiveLogins),
	}, http.StatusForbidden, http.StatusNotFound, http.StatusConflict), answer(s, s.createKey))
	huma.Register(router, operation(huma.Operation{
		OperationID: "list-keys", Method: http.MethodGet, Path: path, Tags: []string{"keys"},
		Summary: "List an account's keys, or its login tokens, without secrets",
		Description: "Oldest first. Expired and revoked keys are kept for 90 days, the last 1000 of an account. Revoked ones are listed where include asks for them, expired login tokens never. " +
			fmt.Sprintf("Of login tokens the newest %d are listed.", maxLogins),
	}, http.StatusNotFound), answer(s, s.listKeys))
	huma.Register(router, operation(huma.Operation{
		OperationID: "revoke-key", Method: http.MethodDelete, Path: path + "/{id}", Tags: []string{"keys"},
		Summary:     "Revoke a key or a login token",
		Description: "In force for the very next call. Revoking again changes nothing.",
	}, http.StatusNotFound), perform(s, s.revokeKey))
	huma.Register(router, operation(huma.Operation{
		OperationID: "end-logins", Method: http.MethodDelete, Path: "/tollgate/accounts/{account}/logins", Tags: []string{"keys"},
		Summary:     "End all login tokens of an account",
		Description: "Revokes all that exist at this moment, in one commit. In force for the very next call. Keys are not touched. An account without login tokens is no error.",
	}, http.StatusNotFound), perform(s, s.endLogins))
	huma.Register(router, operation(huma.Operation{
		OperationID: "rotate-key", Method: http.MethodPost, Path: path + "/{id}/rotate", Tags: []string{"keys"}, DefaultStatus: http.StatusCreated,
		Summary:     "Replace a live key",
		Description: "The new one has the same name, abilities and remaining life. The old one ends at once, or after the overlap.",
	}, http.StatusForbidden, http.StatusNotFound, http.StatusConflict), answer(s, s.rotateKey))
}

func (s *server) createKey(ctx context.Context, with *session, in *createKeyInput) (api.IssuedKey, error) {
	key := store.Key{Account: string(in.Account), Kind: token.Key, Name: norm.NFC.String(in.Body.Name), CreatedAt: round(with.now)}
	if in.Body.Kind == token.Login.String() {
		key.Kind = token.Login
		if key.Name == "" {
			key.Name = loginName
		}
	}
	if !validName(key.Name) {
		return api.IssuedKey{}, errInvalidName
	}
	var err error
	if key.ExpiresAt, err = with.expiry(in.Body, key); err != nil {
		return api.IssuedKey{}, err
	}
	if in.Body.Abilities != nil && len(in.Body.Abilities) == 0 {
		return api.IssuedKey{}, invalidRequest("A key needs at least one ability. Leave abilities out for all that the account is entitled to.")
	}
	account, err := with.ensureAccount(ctx, string(in.Account))
	if err != nil {
		return api.IssuedKey{}, err
	}
	plan, err := with.entitled(account)
	if err != nil {
		return api.IssuedKey{}, err
	}
	if key.Abilities, err = grantable(plan, in.Body.Abilities); err != nil {
		return api.IssuedKey{}, err
	}
	return issue(key, func(key store.Key, hash token.Hash) error { return with.store.CreateKey(ctx, key, hash) })
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

// grantable returns the abilities of a new key: those that are asked for,
// or all of the plan's.
func grantable(plan *policy.Plan, asked []string) ([]string, error) {
	if asked == nil {
		return slices.Clone(plan.Abilities), nil
	}
	for _, ability := range asked {
		if !slices.Contains(plan.Abilities, ability) {
			return nil, notEntitled(plan.Name, ability)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(asked))), nil
}

// validName counts characters, not bytes. An invalid byte cannot come
// from JSON, and would count as one character if it did. Names are for
// people to tell keys apart by: one has a letter, a digit or a sign in it,
// and nothing that cannot be seen or turns the text beside it around.
func validName(name string) bool {
	n := utf8.RuneCountInString(name)
	return n >= 1 && n <= maxName && utf8.ValidString(name) && strings.ContainsFunc(name, isSign) && !strings.ContainsFunc(name, isHidden)
}

func isSign(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) }

// brailleBlank is a sign to Unicode and a space to the eye.
const brailleBlank = '\u2800'

// isHidden recognises control characters and what nobody sees, but for the
// two that join letters and signs, or keep them apart.
func isHidden(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	if r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) || r == brailleBlank
}

// issue gives a key its id and its secret and stores it. The secret leaves
// with the answer and is kept nowhere.
func issue(key store.Key, keep func(store.Key, token.Hash) error) (api.IssuedKey, error) {
	secret, err := token.New(key.Kind, rand.Reader)
	if err != nil {
		return api.IssuedKey{}, err
	}
	if key.ID, err = token.NewID(rand.Reader); err != nil {
		return api.IssuedKey{}, err
	}
	key.Hint = secret.String()
	if err := keep(key, secret.Hash()); err != nil {
		return api.IssuedKey{}, err
	}
	return api.IssuedKey{Key: showKey(key), Token: secret.Reveal()}, nil
}

// listKeys leaves out login tokens that have ended: the store prunes them
// in its own time, and nobody wants to see a login that is over.
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
	if in.Kind == token.Login.String() {
		list.Keys = list.Keys[max(0, len(list.Keys)-maxLogins):]
	}
	return list, nil
}

func (s *server) revokeKey(ctx context.Context, with *session, in *keyInput) error {
	return with.store.RevokeKey(ctx, string(in.Account), in.ID, with.now)
}

func (s *server) endLogins(ctx context.Context, with *session, in *accountInput) error {
	return with.store.EndLogins(ctx, string(in.Account), with.now)
}

// rotateKey keeps the abilities that the old key has, those too that the
// plan lost since: they give nothing now, and come back with the plan.
func (s *server) rotateKey(ctx context.Context, with *session, in *rotateKeyInput) (api.IssuedKey, error) {
	var overlap time.Duration
	if in.Body != nil && in.Body.Overlap != "" {
		var err error
		if overlap, err = policy.ParseDuration(in.Body.Overlap); err != nil {
			return api.IssuedKey{}, invalidRequest("The overlap is not a duration such as 90m, 24h or 7d, at most 36500d.")
		}
	}
	old, err := with.store.Key(ctx, string(in.Account), in.ID)
	if err != nil {
		return api.IssuedKey{}, err
	}
	// A key that has just been deleted with its account must not create the
	// account again.
	account, err := with.store.Account(ctx, string(in.Account))
	if err != nil {
		return api.IssuedKey{}, err
	}
	if _, err := with.entitled(account); err != nil {
		return api.IssuedKey{}, err
	}
	next := store.Key{
		Account: old.Account, Kind: old.Kind, Name: old.Name, Abilities: old.Abilities,
		CreatedAt: round(with.now), ExpiresAt: old.ExpiresAt,
	}
	oldEnds := next.CreatedAt.Add(overlap)
	if !old.ExpiresAt.IsZero() && old.ExpiresAt.Before(oldEnds) {
		oldEnds = old.ExpiresAt
	}
	return issue(next, func(next store.Key, hash token.Hash) error {
		err := with.store.RotateKey(ctx, string(in.Account), in.ID, next, hash, oldEnds)
		switch {
		case errors.Is(err, store.ErrNameTaken):
			return errReplaced
		case errors.Is(err, store.ErrNotFound):
			return errEnded
		case errors.Is(err, store.ErrTooManyKeys):
			return errNoOverlap
		}
		return err
	})
}

func showKey(key store.Key) api.Key {
	return api.Key{
		ID:         key.ID,
		Account:    key.Account,
		Kind:       key.Kind.String(),
		Name:       key.Name,
		Abilities:  append([]string{}, key.Abilities...),
		Hint:       key.Hint,
		CreatedAt:  round(key.CreatedAt),
		ExpiresAt:  roundOrNil(key.ExpiresAt),
		RevokedAt:  roundOrNil(key.RevokedAt),
		LastUsedAt: roundOrNil(key.LastUsedAt),
	}
}

func roundOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(round(t))
}
