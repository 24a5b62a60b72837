package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// Login tokens from before a change of password end in this way. The
// change itself stores that they are to end (Credential.LoginsEnd), in one
// row, so it is never forgotten. The gate is asked afterwards, to end all
// that it has at that moment, and only its answer clears the mark. No clock
// decides which tokens end. Two rules order it instead:
//
//   - A login with the old password makes its token before it reads the
//     password's version again (see confirm). If it reads the old version,
//     its token was there before the change was stored, and the gate is
//     asked after that.
//   - A login with the new password finds the mark, and has the gate end
//     the old tokens before it makes its own.
//
// Within one process, all that find the same mark share one call of the
// gate, so none ends a token that another made after the mark was cleared.
// Two calls for one account overlap only where two processes, or two
// changes, find work in the same milliseconds. A login with the new password
// in between may lose its token then, and the client logs in again.

// endLogins has the gate end the login tokens that a change of the
// password to that version left, unless it has done so.
func (s *Service) endLogins(ctx context.Context, id string, version int64) error {
	// Neither a caller that leaves nor one that joins may stop it half-way.
	ctx = context.WithoutCancel(ctx)
	_, err, _ := s.ending.Do(fmt.Sprint(id, " ", version), func() (any, error) {
		c, err := s.store.ByID(ctx, id)
		if errors.Is(err, ErrNotFound) || err == nil && c.LoginsEnd == 0 {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		err = s.ask(ctx, func(ctx context.Context) error { return s.gate.EndLogins(ctx, id) })
		if isNotFound(err) {
			err = s.checkUnknown(ctx, id, err)
		}
		if err != nil {
			return nil, err
		}
		return nil, s.store.LoginsEnded(ctx, id, c.LoginsEnd)
	})
	return err
}

// checkUnknown returns nil if the gate does not know the account, which has
// no tokens then. Otherwise it was the call that the gate does not know, as
// before an upgrade: the error has the gate's 404 and wraps ErrGate.
func (s *Service) checkUnknown(ctx context.Context, id string, notFound error) error {
	err := s.ask(ctx, func(ctx context.Context) error {
		_, err := s.gate.Account(ctx, id)
		return err
	})
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: ending login tokens: %w", ErrGate, notFound)
}

// endingPage is how many accounts EndLogins reads at once.
const endingPage = 1000

// EndLogins has the gate end all login tokens that changes of passwords
// left because it did not answer then. It gives up with the first account
// if the gate cannot be reached, and otherwise tries all; the error wraps
// ErrGate.
func (s *Service) EndLogins(ctx context.Context) error {
	ids, err := s.store.LoginsToEnd(ctx, endingPage)
	if err != nil {
		return err
	}
	var failed error
	for _, id := range ids {
		c, err := s.store.ByID(ctx, id)
		if err == nil && c.LoginsEnd != 0 {
			err = s.endLogins(ctx, id, c.LoginsEnd)
		}
		if errors.Is(err, client.ErrUnreachable) {
			return err
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			failed = err
		}
	}
	return failed
}

// slowest is how many times longer than usual Run waits at most.
const slowest = 15

// Run calls EndLogins until the context ends: at once, then after every,
// and after a failure each time twice as late as before, up to 15 times
// every. Other processes leave work too, so it looks even if it has none.
func (s *Service) Run(ctx context.Context, every time.Duration) {
	wait := every
	failing := false
	for ctx.Err() == nil {
		switch err := s.EndLogins(ctx); {
		case ctx.Err() != nil:
		case err != nil:
			if !failing {
				s.logger.Warn("login tokens from before a change of password still work; trying again", "error", err)
			}
			failing, wait = true, min(2*wait, slowest*every)
		case failing:
			s.logger.Info("login tokens from before a change of password have ended")
			failing, wait = false, every
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}
