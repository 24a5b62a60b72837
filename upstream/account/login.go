package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// nobody is an id that no account has. The gate is asked about it where
// there is no account to ask about, so that an unknown e-mail address
// costs the same calls as a known one.
const nobody = idPrefix + "nobody"

// Token is what a login is answered with.
type Token struct {
	// Secret opens the API. It is shown once and stored nowhere.
	Secret string
	// Lifetime is how long it does.
	Lifetime time.Duration
}

// Login exchanges e-mail and password for a token that carries all that
// the account is entitled to.
//
// The error is ErrCredentials, after the same work, for an unknown
// address, a wrong password and a disabled account; ErrPlanRequired;
// ErrBusy; or wraps ErrGate.
func (s *Service) Login(ctx context.Context, email, password string) (Token, error) {
	c, err := s.authenticate(ctx, email, password)
	if err != nil {
		return Token{}, err
	}
	// The new token must not be among those that a change of the password
	// is still to end.
	if c.LoginsEnd != 0 {
		if err := s.endLogins(ctx, c.ID, c.LoginsEnd); err != nil {
			return Token{}, err
		}
	}
	var key api.IssuedKey
	err = s.ask(ctx, func(ctx context.Context) (err error) {
		key, err = s.gate.CreateKey(ctx, c.ID, api.KeyRequest{Kind: "login"})
		return err
	})
	if err != nil {
		return Token{}, refusedLogin(err)
	}
	if key.ExpiresAt == nil {
		return Token{}, fmt.Errorf("%w: its login token does not expire", ErrGate)
	}
	if err := s.confirm(ctx, c, key.ID); err != nil {
		return Token{}, err
	}
	return Token{Secret: key.Token, Lifetime: key.ExpiresAt.Sub(key.CreatedAt)}, nil
}

// authenticate returns the account that e-mail and password open. It
// takes every step in every case, and judges only then.
func (s *Service) authenticate(ctx context.Context, address, password string) (Credential, error) {
	email, err := ParseEmail(address)
	known := err == nil
	c, err := s.store.ByEmail(ctx, email)
	switch {
	case errors.Is(err, ErrNotFound):
		c, known = Credential{Account: Account{ID: nobody}}, false
	case err != nil:
		return Credential{}, err
	}
	var standing api.Account
	err = s.ask(ctx, func(ctx context.Context) (err error) {
		standing, err = s.gate.Account(ctx, c.ID)
		return err
	})
	if err != nil && !isNotFound(err) {
		return Credential{}, err
	}
	right, err := s.hasher.Verify(ctx, c.Hash, password)
	if err != nil {
		return Credential{}, err
	}
	if !known || !right || standing.Disabled {
		return Credential{}, ErrCredentials
	}
	s.rehash(ctx, c, password)
	return c, nil
}

// rehash stores the password's hash at the present cost if it was made at
// another one. The login succeeds without it.
func (s *Service) rehash(ctx context.Context, c Credential, password string) {
	if !s.hasher.Outdated(c.Hash) {
		return
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err == nil {
		err = s.store.Rehash(ctx, c.ID, c.Version, hash)
	}
	if err != nil {
		s.renewing.Failed(slog.String("account", c.ID), slog.Any("error", err))
	}
}

// confirm ends a new login token if the account's password was changed or
// the account deleted while the login went on. Together with a change of
// password, which ends tokens after its commit, no login with an old
// password outlives the change: either the token was there to be ended, or
// the change is seen here.
func (s *Service) confirm(ctx context.Context, c Credential, key string) error {
	now, err := s.store.ByID(ctx, c.ID)
	if err == nil && now.Version == c.Version {
		return nil
	}
	if err == nil || errors.Is(err, ErrNotFound) {
		err = ErrCredentials
	}
	ctx = context.WithoutCancel(ctx)
	revoked := s.ask(ctx, func(ctx context.Context) error { return s.gate.RevokeKey(ctx, c.ID, key) })
	if revoked != nil && !isNotFound(revoked) {
		s.revoking.Failed(slog.String("account", c.ID), slog.String("key", key), slog.Any("error", revoked))
	}
	return err
}

// refusedLogin translates the gate's refusal to issue a token.
func refusedLogin(err error) error {
	var refusal *apierror.Error
	if errors.As(err, &refusal) {
		switch refusal.Code {
		case "plan_required":
			return ErrPlanRequired
		case "account_disabled":
			return ErrCredentials
		}
	}
	return err
}
