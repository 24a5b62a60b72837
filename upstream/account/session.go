package account

import (
	"context"
	"time"
)

// Identity is an account with the version of its password. A session ends
// when the version changes.
type Identity struct {
	Account
	// Version increments at each change of the password.
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
	// Version is the Identity's at the time of the sign-in. The session is
	// valid while the account has this version.
	Version int64
	// Agent is the User-Agent of the browser.
	Agent string
	// CreatedAt, SeenAt and ExpiresAt are in UTC, to the millisecond.
	// SeenAt is the time of the last visit, to the minute.
	CreatedAt time.Time
	SeenAt    time.Time
	ExpiresAt time.Time
}

// SignIn returns the account with this e-mail and password. Unlike Login it
// creates no token, so a plan without access does not matter.
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

// Identify returns the account with that id, or ErrNotFound.
func (s *Service) Identify(ctx context.Context, id string) (Identity, error) {
	c, err := s.store.ByID(ctx, id)
	return c.identity(), err
}
