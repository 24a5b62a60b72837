package account

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// InviteLifetime is how long the link of an invited person works.
const InviteLifetime = 7 * 24 * time.Hour

// ErrMember means that an invited person has a password already.
var ErrMember = errors.New("the account has a password")

// Invite makes an account without a password, and the token of a reset link with
// which the person chooses one. Nothing is hashed. id is that of an account at
// the gate, or empty for a new one. An empty plan keeps that of the gate. A person
// who was invited before gets a new link. A dry run changes nothing.
//
// The error is ErrMember, ErrEmailTaken if the e-mail or the id is a name of another
// account, a refusal of the gate, or wraps ErrGate or ErrDatabase. Then the account
// can be at the gate already; another call completes the work.
func (s *Service) Invite(ctx context.Context, email Email, id, plan string, dryRun bool) (a Account, token string, err error) {
	a, isNew, err := s.match(ctx, email, id)
	if err != nil || dryRun {
		return a, "", err
	}
	change := api.AccountChange{Label: label(email)}
	if plan != "" {
		change.Plan = &plan
	}
	err = s.ask(ctx, func(ctx context.Context) error {
		_, err := s.gate.PutAccount(ctx, a.ID, change)
		return err
	})
	if err == nil && isNew {
		err = s.store.Add(ctx, a, "")
	}
	if err == nil {
		token, err = s.newReset(ctx, a.ID, InviteLifetime)
	}
	return a, token, err
}

// match returns the account of a person who is invited, as it is or will be
// stored.
func (s *Service) match(ctx context.Context, email Email, id string) (a Account, isNew bool, err error) {
	c, err := s.store.ByEmail(ctx, email)
	if errors.Is(err, ErrNotFound) && id != "" {
		c, err = s.store.ByID(ctx, id)
	}
	switch {
	case id != "" && !api.ValidAccount(id):
		err = api.ErrInvalidAccount
	case errors.Is(err, ErrNotFound):
		now := s.now().UTC().Truncate(time.Millisecond)
		a = Account{ID: cmp.Or(id, newID()), Email: email, CreatedAt: now, UpdatedAt: now}
		return a, true, s.checkName(ctx, email, a.ID)
	case err == nil && (c.Email != email || id != "" && id != c.ID):
		err = ErrEmailTaken
	case err == nil && c.Hash != "":
		err = ErrMember
	}
	return c.Account, false, err
}
