package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

// gateTimeout bounds one call of the control API, which answers in a
// millisecond when it is well. A database transaction waits for it.
const gateTimeout = 5 * time.Second

const (
	idPrefix = "acc_"
	idLength = 20 // base62 characters: 119 bits
	base62   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Service administers accounts and checks their passwords. Its methods
// are safe for concurrent use, in several processes over one database.
type Service struct {
	store  Store
	gate   *client.Client
	hasher *Hasher
	now    func() time.Time

	// What fails behind an answer that the client has already.
	removing, renewing, revoking *outage.Log
}

// NewService returns a Service over its parts. The logger is told what
// nobody is answered: that cleaning up after a failure failed.
func NewService(store Store, gate *client.Client, hasher *Hasher, now func() time.Time, logger *slog.Logger) *Service {
	return &Service{
		store: store, gate: gate, hasher: hasher, now: now,
		removing: outage.New(logger, slog.LevelWarn, "removing a half-made account from the gate"),
		renewing: outage.New(logger, slog.LevelWarn, "renewing a password hash"),
		revoking: outage.New(logger, slog.LevelWarn, "revoking an overtaken login token"),
	}
}

// Add makes an account on a plan. The error wraps ErrPassword,
// ErrEmailTaken or ErrGate, or is the gate's *apierror.Error, for instance
// for an unknown plan. After an error there is no account.
//
// The row is written first and committed last, with the gate's consent in
// between. A crash in between leaves the gate an account that nobody can
// log in to and that has no token.
func (s *Service) Add(ctx context.Context, email Email, password, plan string) (Account, error) {
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return Account{}, err
	}
	now := s.now().UTC().Truncate(time.Millisecond)
	a := Account{ID: newID(), Email: email, CreatedAt: now, UpdatedAt: now}
	asked := false
	err = s.store.Add(ctx, a, hash, func() error {
		asked = true
		active := false
		return s.ask(ctx, func(ctx context.Context) error {
			_, err := s.gate.PutAccount(ctx, a.ID, control.AccountChange{Plan: &plan, Disabled: &active})
			return err
		})
	})
	if err != nil && asked {
		err = s.settle(ctx, a.ID, err)
	}
	if err != nil {
		return Account{}, err
	}
	return a, nil
}

// settle brings the gate in line with the database after an Add that
// failed with cause: a request may have been carried out although its
// answer was lost, a commit may have been made although it was reported
// failed. It returns nil if the account turns out to be stored.
func (s *Service) settle(ctx context.Context, id string, cause error) error {
	// The cleaning up has its own time: the caller's may have run out,
	// which may have been what failed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*gateTimeout)
	defer cancel()
	_, err := s.store.ByID(ctx, id)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrNotFound):
		return errors.Join(cause, err)
	}
	if err := s.forget(ctx, id); err != nil {
		// Not an error of its own: the gate is left with an account that
		// opens nothing.
		s.removing.Failed(slog.String("account", id), slog.Any("error", err))
	}
	return cause
}

// SetPlan puts an account on another plan, which only the gate knows.
func (s *Service) SetPlan(ctx context.Context, id, plan string) error {
	return s.put(ctx, id, control.AccountChange{Plan: &plan})
}

// SetDisabled closes an account or opens it again, at the gate.
func (s *Service) SetDisabled(ctx context.Context, id string, disabled bool) error {
	return s.put(ctx, id, control.AccountChange{Disabled: &disabled})
}

func (s *Service) put(ctx context.Context, id string, change control.AccountChange) error {
	if _, err := s.store.ByID(ctx, id); err != nil {
		return err
	}
	return s.ask(ctx, func(ctx context.Context) error {
		_, err := s.gate.PutAccount(ctx, id, change)
		return err
	})
}

// SetPassword changes a password and ends the account's login tokens:
// whoever logged in with the old password must not stay. Keys that were
// made in Settings are untouched.
//
// The tokens end before the change is committed, so that an unreachable
// gate leaves everything as it was, and once more after it, for the login
// that slipped in between. If that second time fails the error wraps
// ErrPasswordChanged. After any other error the old password stands, but
// for a database that went away in the commit and cannot be asked.
//
// It changes the password that who was identified with, and returns who
// that is from now on; the error is ErrOvertaken if there is another one
// by now. Of several who ask at once, one succeeds.
func (s *Service) SetPassword(ctx context.Context, who Identity, password string) (Identity, error) {
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return Identity{}, err
	}
	id, at := who.ID, s.now().UTC().Truncate(time.Millisecond)
	end := func() error { return s.endLogins(ctx, id) }
	agreed := false
	err = s.store.SetPassword(ctx, id, who.Version, hash, at, func() error {
		err := end()
		agreed = err == nil
		return err
	})
	if err != nil && agreed {
		err = s.settlePassword(ctx, id, hash, err)
	}
	if err != nil {
		return Identity{}, err
	}
	who.Version++
	who.UpdatedAt = at
	if err := end(); err != nil {
		return who, fmt.Errorf("%w: %w", ErrPasswordChanged, err)
	}
	return who, nil
}

// settlePassword finds out what became of a SetPassword whose commit
// failed with cause: it may have been made although it was reported
// failed. It returns nil if the hash turns out to be stored.
func (s *Service) settlePassword(ctx context.Context, id, hash string, cause error) error {
	// As in settle, the caller's time may be what ran out.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateTimeout)
	defer cancel()
	stored, err := s.store.ByID(ctx, id)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case stored.Hash != hash:
		return cause
	}
	return nil
}

func (s *Service) endLogins(ctx context.Context, id string) error {
	return s.ask(ctx, func(ctx context.Context) error {
		logins, err := s.gate.Keys(ctx, id, control.KeyFilter{Kind: "login"})
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, login := range logins {
			if err := s.gate.RevokeKey(ctx, id, login.ID); err != nil && !isNotFound(err) {
				return err
			}
		}
		return nil
	})
}

// Delete removes an account from the gate, with its tokens and counts,
// and from the database. If the commit fails after the gate has agreed,
// the account is left without plan and tokens, and deleting it again
// completes the work: the failure takes rights, it never leaves any.
func (s *Service) Delete(ctx context.Context, id string) error {
	forget := func() error { return s.forget(ctx, id) }
	if err := s.store.Remove(ctx, id, forget); err != nil {
		return err
	}
	// Once more, for what slipped in before the commit: a change of plan
	// made the account anew, and so did a login where the plan of unknown
	// accounts has access.
	if err := forget(); err != nil {
		return fmt.Errorf("the account is deleted, but the gate may still know it: %w", err)
	}
	return nil
}

func (s *Service) forget(ctx context.Context, id string) error {
	return s.ask(ctx, func(ctx context.Context) error {
		if err := s.gate.DeleteAccount(ctx, id); !isNotFound(err) {
			return err
		}
		return nil
	})
}

// Find returns the account with that e-mail address or ErrNotFound.
func (s *Service) Find(ctx context.Context, email Email) (Account, error) {
	c, err := s.store.ByEmail(ctx, email)
	return c.Account, err
}

// Get returns the account with that id or ErrNotFound.
func (s *Service) Get(ctx context.Context, id string) (Account, error) {
	c, err := s.store.ByID(ctx, id)
	return c.Account, err
}

// ask makes calls of the control API within gateTimeout and tells the
// gate's refusals, which are an answer and kept as they are, from its
// failures, which become ErrGate.
//
// A caller that leaves does not end the call: the gate might carry out
// what was abandoned, and do so after it was told to undo it.
func (s *Service) ask(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), gateTimeout)
	defer cancel()
	err := call(ctx)
	var refusal *apierror.Error
	if err == nil || errors.As(err, &refusal) && refusal.Status < http.StatusInternalServerError &&
		refusal.Status != http.StatusUnauthorized {
		return err
	}
	return fmt.Errorf("%w: %w", ErrGate, err)
}

func isNotFound(err error) bool {
	var refusal *apierror.Error
	return errors.As(err, &refusal) && refusal.Status == http.StatusNotFound
}

// newID returns a random id. Bytes that would favour some characters over
// others are thrown away.
func newID() string {
	id := []byte(idPrefix)
	for len(id) < len(idPrefix)+idLength {
		for _, b := range randomBytes(idLength) {
			if int(b) < 256/len(base62)*len(base62) && len(id) < len(idPrefix)+idLength {
				id = append(id, base62[int(b)%len(base62)])
			}
		}
	}
	return string(id)
}
