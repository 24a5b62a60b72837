package account

import (
	"context"
	"time"
)

// Identity is an account together with the count of its passwords, by
// which a session tells whether the password it began with still is the
// account's.
type Identity struct {
	Account
	// Version is one more after each change of the password.
	Version int64
	// ChangesUntil is the Credential's.
	ChangesUntil time.Time
}

func (c Credential) identity() Identity { return Identity{c.Account, c.Version, c.ChangesUntil} }

// Session is a browser in which an account is signed in.
type Session struct {
	// ID is the hash of the secret that the browser holds.
	ID string
	// Account is the account's id.
	Account string
	// Version is the Identity's at the time of the sign-in. A session with
	// another one than the account's is over.
	Version int64
	// Agent is what the browser calls itself.
	Agent string
	// CreatedAt, SeenAt and ExpiresAt are in UTC, to the millisecond.
	// SeenAt is when the person was last there, at most a minute old.
	CreatedAt time.Time
	SeenAt    time.Time
	ExpiresAt time.Time
}

// SignIn returns the account that e-mail and password open. Unlike Login
// it makes no token, so that somebody whose plan has no access can still
// look around.
//
// The error is ErrCredentials, after the same work, for an unknown
// address, a wrong password and a disabled account; ErrBusy; or wraps
// ErrGate.
func (s *Service) SignIn(ctx context.Context, email, password string) (Identity, error) {
	c, err := s.authenticate(ctx, email, password)
	if err != nil {
		return Identity{}, err
	}
	return c.identity(), nil
}

// Identify returns the account with that id as it is now, or ErrNotFound.
func (s *Service) Identify(ctx context.Context, id string) (Identity, error) {
	c, err := s.store.ByID(ctx, id)
	return c.identity(), err
}
