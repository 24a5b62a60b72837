package account

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// ResetLifetime is how long a reset link works.
const ResetLifetime = 30 * time.Minute

// resetLength is the number of random bytes in a reset link.
const resetLength = 32

// ErrReset means that a reset link does not work: it is unknown, expired or
// spent, there is a newer one, or the password was changed in the meantime.
var ErrReset = errors.New("the reset link does not work")

// NewReset returns the token of a link that sets a new password once, or
// ErrNotFound for an unknown account. Only the hash of the token is stored. An
// older link of the account no longer works.
func (s *Service) NewReset(ctx context.Context, id string) (token string, err error) {
	return s.newReset(ctx, id, ResetLifetime)
}

func (s *Service) newReset(ctx context.Context, id string, lifetime time.Duration) (token string, err error) {
	token = base64.RawURLEncoding.EncodeToString(randomBytes(resetLength))
	return token, s.store.SetReset(ctx, id, resetID(token), s.now().Add(lifetime))
}

// NoteReset adds a reset link to the audit log of the gate. The link works
// without it.
func (s *Service) NoteReset(ctx context.Context, id string) error {
	return s.ask(ctx, func(ctx context.Context) error { return s.gate.Note(ctx, id, api.ResetCreate) })
}

// FindReset returns the account of a reset link, or ErrReset. It does not
// spend the link.
func (s *Service) FindReset(ctx context.Context, token string) (Account, error) {
	c, err := s.findReset(ctx, token)
	return c.Account, err
}

// ResetPassword sets a new password by a reset link, for a person who does not
// know the current one. It ends the sessions of the account, and its login
// tokens as ChangePassword does. The names are those of CheckPassword.
//
// The error is ErrReset. With another error the account is returned too: with
// one that wraps ErrPassword the link is not spent, and ErrLoginsLive means that
// the password is changed. Of several concurrent calls one succeeds: it changes
// the version of the password, and the link works for one version only.
func (s *Service) ResetPassword(ctx context.Context, token, password string, names ...string) (Account, error) {
	c, err := s.findReset(ctx, token)
	if err != nil {
		return Account{}, err
	}
	if err := CheckPassword(password, c.Email, names...); err != nil {
		return c.Account, err
	}
	if c.Hash, err = s.hasher.Hash(ctx, password); err != nil {
		return c.Account, err
	}
	_, err = s.replace(ctx, c)
	if errors.Is(err, ErrOvertaken) {
		return Account{}, ErrReset
	}
	if err == nil || errors.Is(err, ErrLoginsLive) {
		// The link no longer works; it is only deleted early.
		if failed := s.store.RemoveReset(ctx, c.ID); failed != nil {
			s.logger.Warn("deleting a spent reset link", slog.String("account", c.ID), slog.Any("error", failed))
		}
	}
	return c.Account, err
}

func (s *Service) findReset(ctx context.Context, token string) (Credential, error) {
	if random, err := base64.RawURLEncoding.Strict().DecodeString(token); err != nil || len(random) != resetLength {
		return Credential{}, ErrReset
	}
	c, err := s.store.ByReset(ctx, resetID(token), s.now())
	if errors.Is(err, ErrNotFound) {
		return Credential{}, ErrReset
	}
	return c, err
}

// resetID returns the stored form of a token.
func resetID(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:])
}

// Prune deletes reset links and sessions that have ended until the context
// ends: at once, then at the interval every.
func (s *Service) Prune(ctx context.Context, every time.Duration) {
	for ctx.Err() == nil {
		if err := s.store.Prune(ctx, s.now()); err != nil && ctx.Err() == nil {
			s.pruning.Failed(slog.Any("error", err))
		} else {
			s.pruning.Worked()
		}
		select {
		case <-ctx.Done():
		case <-time.After(every):
		}
	}
}

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
	var change api.AccountChange
	if plan != "" {
		change.Plan = &plan
	}
	err = s.put(ctx, a, change)
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
