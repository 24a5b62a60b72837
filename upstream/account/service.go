package account

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
)

// gateTimeout bounds one call of the control API, which answers in a
// millisecond when it is well.
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
	logger *slog.Logger
	ending singleflight.Group // see endLogins

	// What fails behind an answer that the client has already.
	removing, renewing, revoking *outage.Log
}

// NewService returns a Service over its parts. The logger is told what
// nobody is answered: that cleaning up after a failure failed.
func NewService(store Store, gate *client.Client, hasher *Hasher, now func() time.Time, logger *slog.Logger) *Service {
	return &Service{
		store: store, gate: gate, hasher: hasher, now: now, logger: logger,
		removing: outage.New(logger, slog.LevelWarn, "removing a half-made account from the gate"),
		renewing: outage.New(logger, slog.LevelWarn, "renewing a password hash"),
		revoking: outage.New(logger, slog.LevelWarn, "revoking an overtaken login token"),
	}
}

// Add makes an account on a plan. The error wraps ErrPassword,
// ErrEmailTaken or ErrGate, or is the gate's *apierror.Error, for instance
// for an unknown plan. After an error there is no account.
//
// The gate is asked first, and the row is written last. A crash in between
// leaves the gate an account that cannot be logged in to and that has no
// token.
func (s *Service) Add(ctx context.Context, email Email, password, plan string) (Account, error) {
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return Account{}, err
	}
	// The row decides in a race; this spares the gate the common case.
	if _, err := s.store.ByEmail(ctx, email); err == nil {
		return Account{}, ErrEmailTaken
	} else if !errors.Is(err, ErrNotFound) {
		return Account{}, err
	}
	now := s.now().UTC().Truncate(time.Millisecond)
	a := Account{ID: newID(), Email: email, CreatedAt: now, UpdatedAt: now}
	active := false
	err = s.ask(ctx, func(ctx context.Context) error {
		_, err := s.gate.PutAccount(ctx, a.ID, api.AccountChange{Plan: &plan, Disabled: &active})
		return err
	})
	if err == nil {
		err = s.store.Add(ctx, a, hash)
	}
	if err != nil {
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
	return s.put(ctx, id, api.AccountChange{Plan: &plan})
}

// SetDisabled closes an account or opens it again, at the gate.
func (s *Service) SetDisabled(ctx context.Context, id string, disabled bool) error {
	return s.put(ctx, id, api.AccountChange{Disabled: &disabled})
}

func (s *Service) put(ctx context.Context, id string, change api.AccountChange) error {
	if _, err := s.store.ByID(ctx, id); err != nil {
		return err
	}
	return s.ask(ctx, func(ctx context.Context) error {
		_, err := s.gate.PutAccount(ctx, id, change)
		return err
	})
}

// Delete removes an account from the gate, with its tokens and counts,
// and from the database. If the database fails after the gate has agreed,
// the account is left without plan and tokens, and deleting it again
// completes the work: the failure takes rights, it never leaves any.
func (s *Service) Delete(ctx context.Context, id string) error {
	if _, err := s.store.ByID(ctx, id); err != nil {
		return err
	}
	if err := s.forget(ctx, id); err != nil {
		return err
	}
	if err := s.store.Remove(ctx, id); err != nil {
		return err
	}
	// Once more, for what slipped in between: a change of plan made the
	// account anew, and so did a login where the plan of unknown accounts
	// has access.
	if err := s.forget(ctx, id); err != nil {
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
