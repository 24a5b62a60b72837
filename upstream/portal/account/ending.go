package account

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// A change of password ends older login tokens as follows. The change sets a
// mark in the row of the account (Credential.LoginsEnd). Afterwards the gate
// ends all login tokens of the account, and its answer clears the mark. No
// clock decides which tokens end. Two rules order the calls instead:
//
//   - A login with the old password creates its token before it reads the
//     password's version again (see confirm). If it reads the old version,
//     the token existed before the change was stored, and the gate ends it.
//   - A login with the new password sees the mark. It lets the gate end the
//     old tokens before it creates its own.
//
// Within one process, all that see the same mark share one call of the gate,
// so no call ends a token that was created after the mark was cleared. Two
// calls for one account overlap only if two processes, or two changes, see a
// mark within milliseconds. Then a new login may lose its token, and the
// client logs in again.

// endLogins lets the gate end the login tokens from before that version,
// unless it did so already.
func (s *Service) endLogins(ctx context.Context, id string, version int64) error {
	// Several callers share the call; none of them may cancel it.
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
		// An account that is unknown to the gate has no tokens.
		if err != nil && !errors.Is(err, api.ErrNotFound) {
			return nil, err
		}
		return nil, s.store.LoginsEnded(ctx, id, c.LoginsEnd)
	})
	return err
}

// endingPage is how many accounts EndLogins lists at once.
const endingPage = 100

// EndLogins lets the gate end the login tokens that it did not end when a
// password was changed. It tries each account once, and stops if the gate or
// the database does not answer.
func (s *Service) EndLogins(ctx context.Context) (err error) {
	after := ""
	for {
		pending, failed := s.store.LoginsToEnd(ctx, after, endingPage)
		if failed != nil || len(pending) == 0 {
			return cmp.Or(failed, err)
		}
		for _, c := range pending {
			after = c.ID
			failed := s.endLogins(ctx, c.ID, c.LoginsEnd)
			if errors.Is(failed, client.ErrUnreachable) || errors.Is(failed, ErrDatabase) {
				return failed
			}
			err = cmp.Or(failed, err)
		}
	}
}

// slowest is the maximum wait of Run, as a multiple of its interval.
const slowest = 15

// Run calls EndLogins until the context ends: at once, then at the interval
// every. After a failure the interval doubles, up to 15 times every. Other
// processes can leave tokens to end, so Run never stops looking.
func (s *Service) Run(ctx context.Context, every time.Duration) {
	wait := every
	failing := false
	for ctx.Err() == nil {
		switch err := s.EndLogins(ctx); {
		case ctx.Err() != nil:
		case err != nil:
			if !failing {
				s.logger.Warn("login tokens of an old password still work; retrying", "error", err)
			}
			failing, wait = true, min(2*wait, slowest*every)
		case failing:
			s.logger.Info("login tokens of an old password have ended")
			failing, wait = false, every
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}
