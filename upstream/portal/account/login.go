package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// unknownID is an id that no account has. For an unknown e-mail address the
// gate is asked about it, so that the work is the same as for a known one.
const unknownID = api.MadePrefix + "nobody"

// Token is the result of a login.
type Token struct {
	// Secret is the token itself. It is shown once and never stored.
	Secret string
	// Lifetime is how long the token is valid.
	Lifetime time.Duration
}

// Login exchanges e-mail and password for a token with all abilities of the
// account.
//
// The error is ErrCredentials, after the same work, for an unknown
// address, a wrong password and a disabled account; ErrPlanRequired;
// ErrBusy; or wraps ErrGate or ErrDatabase.
func (s *Service) Login(ctx context.Context, email, password string) (Token, error) {
	c, right, err := s.verify(ctx, email, password)
	if err != nil {
		return Token{}, err
	}
	if !right {
		// The gate is asked once, as with the right password.
		if _, err := s.atGate(ctx, c.ID); err != nil {
			return Token{}, err
		}
		return Token{}, ErrCredentials
	}
	// Otherwise the tokens that the gate still has to end would include the
	// new one.
	if c.LoginsEnd != 0 {
		if err := s.endLogins(ctx, c.ID, c.LoginsEnd); err != nil {
			return Token{}, err
		}
	}
	key, err := s.CreateKey(ctx, c.ID, api.KeyRequest{Kind: "login"})
	if err != nil {
		return Token{}, refusedLogin(err)
	}
	if key.ExpiresAt == nil {
		return Token{}, fmt.Errorf("%w: its login token does not expire", ErrGate)
	}
	if err := s.confirm(ctx, c, key.ID); err != nil {
		return Token{}, err
	}
	s.rehash(ctx, c, password)
	return Token{Secret: key.Token, Lifetime: key.ExpiresAt.Sub(key.CreatedAt)}, nil
}

// errFreeClosed is the gate's refusal of an account on plan free, if that plan has
// no access. It is not asked for one that it does not know: it would keep it.
var errFreeClosed = apierror.New(http.StatusForbidden, "plan_required", "The plan free gives no access to the API.")

// CreateKey creates a key or a login token. An account that is stored here, and
// that the gate does not know, is made there first, if plan free has access. The
// error for an id that is not stored either is api.ErrNotFound.
func (s *Service) CreateKey(ctx context.Context, id string, request api.KeyRequest) (key api.IssuedKey, err error) {
	create := func(ctx context.Context) error {
		key, err = s.gate.CreateKey(ctx, id, request)
		return err
	}
	if err = s.ask(ctx, create); !errors.Is(err, api.ErrNotFound) {
		return key, err
	}
	var config api.Plans
	if err := s.ask(ctx, func(ctx context.Context) (err error) { config, err = s.gate.Plans(ctx); return err }); err != nil {
		return key, err
	}
	if !slices.ContainsFunc(config.Plans, func(p api.Plan) bool { return p.Name == FreePlan && len(p.Limits) > 0 }) {
		return key, errFreeClosed
	}
	if made := s.Set(ctx, id, api.AccountChange{}); made != nil {
		if !errors.Is(made, ErrNotFound) {
			err = made
		}
		return key, err
	}
	if err = s.ask(ctx, create); err != nil {
		return key, err
	}
	if _, gone := s.store.ByID(ctx, id); errors.Is(gone, ErrNotFound) { // deleted in between
		return api.IssuedKey{}, errors.Join(api.ErrNotFound, s.forget(ctx, id))
	}
	return key, nil
}

// SignIn returns the account with this e-mail and password. Unlike Login it
// creates no token, so a plan without access does not matter.
//
// The error is ErrCredentials, after the same work, for an unknown
// address, a wrong password and a disabled account; ErrBusy; or wraps
// ErrGate or ErrDatabase.
func (s *Service) SignIn(ctx context.Context, email, password string) (Identity, error) {
	c, right, err := s.verify(ctx, email, password)
	if err != nil {
		return Identity{}, err
	}
	known, err := s.atGate(ctx, c.ID)
	if err != nil {
		return Identity{}, err
	}
	if !right || known.Disabled {
		return Identity{}, ErrCredentials
	}
	s.rehash(ctx, c, password)
	return c.Identity, nil
}

// verify returns the account with this e-mail, and whether the password is
// right. It does the same work in every case, so that its time reveals
// nothing. An unknown account has the id unknownID and no password.
func (s *Service) verify(ctx context.Context, address, password string) (Credential, bool, error) {
	email, _ := ParseEmail(address) // an invalid address is empty, which no account has
	c, err := s.store.ByEmail(ctx, email)
	if errors.Is(err, ErrNotFound) {
		c, err = Credential{Identity: Identity{Account: Account{ID: unknownID}}}, nil
	}
	if err != nil {
		return Credential{}, false, err
	}
	right, err := s.hasher.Verify(ctx, c.Hash, password)
	return c, right, err
}

// rehash stores a hash of the current cost if the stored one has another
// cost. The login does not depend on it.
func (s *Service) rehash(ctx context.Context, c Credential, password string) {
	if !s.hasher.Outdated(c.Hash) {
		return
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err == nil {
		err = s.store.Rehash(ctx, c.ID, c.Version, hash)
	}
	if err != nil {
		s.rehashing.Failed(slog.String("account", c.ID), slog.Any("error", err))
	}
}

// confirm ends a new login token if the password was changed or the account
// deleted during the login. A change of password ends tokens after its
// commit. So no token of an old password stays valid: either the change ends
// it, or confirm sees the change.
func (s *Service) confirm(ctx context.Context, c Credential, key string) error {
	now, err := s.store.ByID(ctx, c.ID)
	if err == nil && now.Version == c.Version {
		return nil
	}
	if err == nil || errors.Is(err, ErrNotFound) {
		err = ErrCredentials
	}
	revoked := s.ask(ctx, func(ctx context.Context) error { return s.gate.RevokeKey(ctx, c.ID, key) })
	if revoked != nil && !errors.Is(revoked, api.ErrNotFound) {
		s.revoking.Failed(slog.String("account", c.ID), slog.String("key", key), slog.Any("error", revoked))
	}
	return err
}

// refusedLogin returns the error for the gate's refusal to issue a token.
func refusedLogin(err error) error {
	if refusal, ok := errors.AsType[*apierror.Error](err); ok {
		switch refusal.Code {
		case "plan_required":
			return ErrPlanRequired
		case "account_disabled", "not_found":
			return ErrCredentials
		}
	}
	return err
}
