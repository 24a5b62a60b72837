package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
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

	// Failures that no answer reports.
	removing, rehashing, revoking, pruning *outage.Log
}

// NewService returns a Service over its parts. The logger gets failures that
// no answer reports, such as a failed cleanup.
func NewService(store Store, gate *client.Client, hasher *Hasher, now func() time.Time, logger *slog.Logger) *Service {
	return &Service{
		store: store, gate: gate, hasher: hasher, now: now, logger: logger,
		removing:  outage.New(logger, slog.LevelWarn, "removing an incomplete account from the gate"),
		rehashing: outage.New(logger, slog.LevelWarn, "updating a password hash"),
		revoking:  outage.New(logger, slog.LevelWarn, "revoking a login token of an old password"),
		pruning:   outage.New(logger, slog.LevelWarn, "deleting reset links and sessions that have ended"),
	}
}

// Add creates an account on a plan. The error wraps ErrPassword,
// ErrEmailTaken or ErrGate, or is the gate's *apierror.Error, for instance
// for an unknown plan. After an error there is no account.
//
// Add calls the gate first and writes the row last. A crash in between
// leaves an account at the gate without a login and without a token.
func (s *Service) Add(ctx context.Context, email Email, password, plan string) (Account, error) {
	return s.add(ctx, newID(), email, password, plan)
}

// SignUp is Add for a person who signs up. The audit log of the gate names the
// new account as the person. The names are those of CheckPassword.
func (s *Service) SignUp(ctx context.Context, email Email, password, plan string, names ...string) (Account, error) {
	id := newID()
	return s.add(client.WithActor(ctx, id), id, email, password, plan, names...)
}

func (s *Service) add(ctx context.Context, id string, email Email, password, plan string, names ...string) (Account, error) {
	if err := CheckPassword(password, email, names...); err != nil {
		return Account{}, err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return Account{}, err
	}
	// The insert decides a race; this check avoids most calls of the gate.
	if _, err := s.store.ByEmail(ctx, email); err == nil {
		return Account{}, ErrEmailTaken
	} else if !errors.Is(err, ErrNotFound) {
		return Account{}, err
	}
	if err := s.checkName(ctx, email, id); err != nil {
		return Account{}, err
	}
	now := s.now().UTC().Truncate(time.Millisecond)
	a := Account{ID: id, Email: email, CreatedAt: now, UpdatedAt: now}
	active := false
	err = s.ask(ctx, func(ctx context.Context) error {
		_, err := s.gate.PutAccount(ctx, a.ID, api.AccountChange{Plan: &plan, Disabled: &active, Label: label(email)})
		return err
	})
	if err == nil {
		err = s.store.Add(ctx, a, hash)
	}
	if err != nil {
		err = s.checkAdded(ctx, a.ID, err)
	}
	if err != nil {
		return Account{}, err
	}
	return a, nil
}

// checkName returns ErrEmailTaken if the e-mail address of a new account is the id of
// another account, here or at the gate, or if its id is the e-mail address of another person.
// Ids can be e-mail addresses, and one name must not mean two people.
func (s *Service) checkName(ctx context.Context, email Email, id string) error {
	if other, err := ParseEmail(id); err == nil && other != email {
		if _, err := s.store.ByEmail(ctx, other); !errors.Is(err, ErrNotFound) {
			return cmp.Or(err, ErrEmailTaken)
		}
	}
	if string(email) == id || !api.ValidAccount(string(email)) {
		return nil
	}
	_, err := s.store.ByID(ctx, string(email))
	taken := err == nil
	if errors.Is(err, ErrNotFound) {
		err = s.ask(ctx, func(ctx context.Context) (err error) {
			taken, err = s.gate.HasAccount(ctx, string(email))
			return err
		})
	}
	if taken {
		return ErrEmailTaken
	}
	return err
}

// checkAdded looks for the account after an Add that failed with cause: gate
// and database may have made the change and lost the answer. It returns nil
// if the account is stored, and otherwise removes it from the gate.
func (s *Service) checkAdded(ctx context.Context, id string, cause error) error {
	ctx = context.WithoutCancel(ctx)
	_, err := s.store.ByID(ctx, id)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, ErrNotFound):
		return errors.Join(cause, err)
	}
	// The deadline of the caller may be what failed.
	if err := s.forget(within(ctx, undoTimeout), id); err != nil {
		// Only logged: the account left at the gate has no token.
		s.removing.Failed(slog.String("account", id), slog.Any("error", err))
	}
	return cause
}

// Set changes the plan of an account, or whether it is disabled, at the gate.
func (s *Service) Set(ctx context.Context, id string, change api.AccountChange) error {
	c, err := s.store.ByID(ctx, id)
	if err != nil {
		return err
	}
	return s.put(ctx, c.Account, change)
}

// put changes an account at the gate, and its label, unless the configuration file
// of the gate has that.
func (s *Service) put(ctx context.Context, a Account, change api.AccountChange) error {
	known, err := s.atGate(ctx, a.ID)
	if err != nil {
		return err
	}
	if !known.Declared {
		change.Label = label(a.Email)
	}
	return s.ask(ctx, func(ctx context.Context) error {
		_, err := s.gate.PutAccount(ctx, a.ID, change)
		return err
	})
}

// label returns the label of an account at the gate. It is in ASCII, so that
// its bytes are characters.
func label(email Email) *string {
	return new(string(email[:min(len(email), api.MaxLabel)]))
}

// Delete removes an account from the gate, with its tokens, and from the
// database. If the database fails after that, the account is left without
// plan and tokens; a second Delete completes the work.
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
	// A concurrent change of plan or a login may have created the account
	// at the gate again.
	if err := s.forget(ctx, id); err != nil {
		return fmt.Errorf("the account is deleted, but the gate may still know it: %w", err)
	}
	return nil
}

// Close deletes an account for a person who is signed in and knows the
// password. The error is ErrCredentials, ErrNotFound or ErrBusy, or wraps ErrGate
// or ErrDatabase. Then the account is not deleted, unless the connection to the
// database was lost. A gate that fails after the account is deleted is only
// logged.
func (s *Service) Close(ctx context.Context, id, password string) error {
	c, err := s.store.ByID(ctx, id)
	if err != nil {
		return err
	}
	right, err := s.hasher.Verify(ctx, c.Hash, password)
	if err != nil {
		return err
	}
	if !right {
		return ErrCredentials
	}
	// A person who closes the page must not stop the work half way.
	ctx = context.WithoutCancel(ctx)
	err = s.Delete(ctx, id)
	if err == nil {
		return nil
	}
	if _, gone := s.store.ByID(ctx, id); errors.Is(gone, ErrNotFound) {
		s.removing.Failed(slog.String("account", id), slog.Any("error", err))
		return nil
	}
	return err
}

func (s *Service) forget(ctx context.Context, id string) error {
	return s.ask(ctx, func(ctx context.Context) error {
		if err := s.gate.DeleteAccount(ctx, id); !errors.Is(err, api.ErrNotFound) {
			return err
		}
		return nil
	})
}

// Find returns the account with an e-mail address, or ErrNotFound.
func (s *Service) Find(ctx context.Context, email Email) (Identity, error) {
	c, err := s.store.ByEmail(ctx, email)
	return c.Identity, err
}

// Identify returns the account with an id, or ErrNotFound.
func (s *Service) Identify(ctx context.Context, id string) (Identity, error) {
	c, err := s.store.ByID(ctx, id)
	return c.Identity, err
}

// ask calls the control API as OfCall says. It returns a refusal of the
// gate unchanged. A failure wraps ErrGate.
//
// A canceled caller does not cancel the call: the gate could still execute
// it, after the call that undoes it.
func (s *Service) ask(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := OfCall(context.WithoutCancel(ctx))
	defer cancel()
	err := call(ctx)
	refusal, refused := errors.AsType[*apierror.Error](err)
	if err == nil || refused && refusal.Status < http.StatusInternalServerError && refusal.Status != http.StatusUnauthorized {
		return err
	}
	return fmt.Errorf("%w: %w", ErrGate, err)
}

// newID returns a random id of 100 bits.
func newID() string { return api.MadePrefix + rand.Text()[:api.MadeLength] }

// FreePlan is the plan of an account that is unknown to the gate.
const FreePlan = "free"

// Standing is an account with its plan and state at the gate.
type Standing struct {
	Account
	Operator bool   `json:"operator"`
	Plan     string `json:"plan"`
	Disabled bool   `json:"disabled"`
}

// List returns all accounts in the order of their e-mail addresses.
func (s *Service) List(ctx context.Context) ([]Standing, error) {
	known, err := client.All(func(after string) (page []api.Account, next *string, err error) {
		err = s.ask(ctx, func(ctx context.Context) error {
			got, err := s.gate.Accounts(ctx, api.AccountQuery{After: after, Limit: client.PageSize})
			page, next = got.Accounts, got.Next
			return err
		})
		return page, next, err
	})
	if err != nil {
		return nil, err
	}
	atGate := make(map[string]api.Account, len(known))
	for _, a := range known {
		atGate[a.Account] = a
	}
	stored, err := s.store.List(ctx)
	all := make([]Standing, len(stored))
	for i, c := range stored {
		all[i] = standing(c.Identity, atGate[c.ID])
	}
	return all, err
}

// Show returns an account with its plan and state, or ErrNotFound.
func (s *Service) Show(ctx context.Context, id string) (Standing, error) {
	c, err := s.store.ByID(ctx, id)
	if err != nil {
		return Standing{}, err
	}
	known, err := s.atGate(ctx, id)
	return standing(c.Identity, known), err
}

// standing joins what is stored and what the gate knows of an account.
func standing(who Identity, known api.Account) Standing {
	return Standing{who.Account, who.Operator, cmp.Or(known.Plan, FreePlan), known.Disabled}
}

// atGate returns what the gate knows of an account, zero for an unknown one.
func (s *Service) atGate(ctx context.Context, id string) (known api.Account, err error) {
	err = s.ask(ctx, func(ctx context.Context) error {
		known, err = s.gate.Account(ctx, id)
		return err
	})
	if errors.Is(err, api.ErrNotFound) {
		err = nil
	}
	return known, err
}

const (
	// gateTimeout is the timeout of one call of the control API, or of all calls
	// of a page. A call usually takes a millisecond.
	gateTimeout = 5 * time.Second

	// undoTimeout is the timeout of a call that undoes a failed change. A person
	// has waited for the change.
	undoTimeout = time.Second
)

// deadline is the key of the deadline of calls in a context: a func() time.Time.
type deadline struct{}

// OfPage returns the context of a page: all its calls of the control API
// together have the timeout of one, from the first call. So a page waits once for a
// gate that hangs, and hashing a password first takes none of that time.
func OfPage(ctx context.Context) context.Context { return within(ctx, gateTimeout) }

// OfCall returns the context of a call of the control API. It ends with its page
// or, if it has none, after its own timeout.
func OfCall(ctx context.Context) (context.Context, context.CancelFunc) {
	if until, found := ctx.Value(deadline{}).(func() time.Time); found {
		return context.WithDeadline(ctx, until())
	}
	return context.WithTimeout(ctx, gateTimeout)
}

// within gives the calls with a context a deadline together, from the first call.
func within(ctx context.Context, timeout time.Duration) context.Context {
	return context.WithValue(ctx, deadline{}, sync.OnceValue(func() time.Time { return time.Now().Add(timeout) }))
}
