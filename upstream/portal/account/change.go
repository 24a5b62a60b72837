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

// A person can change a password changeBurst times at once, and once more
// for each changeEvery that has passed. The limit stops an attacker who
// knows the password from loading the database and the gate with changes.
// The attacker can still use up the allowance of the owner; then the
// operator helps with SetPassword, which has no limit. The allowance is
// stored with the account, so it survives restarts.
const (
	changeEvery = 6 * time.Minute
	changeBurst = 10
)

// spend returns ChangesUntil after one more change at now, and how long that
// change has to wait. It is the generic cell rate algorithm, which stores one
// time. A time further ahead than all changes together comes from a wrong
// clock and is ignored.
func spend(until, now time.Time) (after time.Time, wait time.Duration) {
	if until.Before(now) || until.Sub(now) > changeBurst*changeEvery {
		until = now
	}
	return until.Add(changeEvery), max(0, until.Sub(now)-(changeBurst-1)*changeEvery)
}

// ChangeIn returns the wait before the next change of the password, or 0.
func (who Identity) ChangeIn(now time.Time) time.Duration {
	_, wait := spend(who.ChangesUntil, now)
	return wait
}

// ChangePassword changes a password for a person who is signed in and knows
// the current one. It ends the account's login tokens, since they come from
// the old password. API keys stay valid. It returns the new Identity.
//
// If the gate is unreachable, the change is stored and the error wraps
// ErrLoginsLive; the tokens end as soon as the gate answers. After any other
// error the old password stays, unless the connection to the database was
// lost: ErrPassword, ErrCredentials, ErrTooManyChanges (with an Identity for
// ChangeIn), ErrBusy or ErrOvertaken. Of several concurrent changes one
// succeeds.
func (s *Service) ChangePassword(ctx context.Context, id, current, password string) (Identity, error) {
	c, err := s.store.ByID(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return Identity{}, ErrOvertaken
	}
	if err != nil {
		return Identity{}, err
	}
	if err := CheckPassword(password, c.Email); err != nil {
		return Identity{}, err
	}
	right, err := s.hasher.Verify(ctx, c.Hash, current)
	if err != nil {
		return Identity{}, err
	}
	if !right {
		return Identity{}, ErrCredentials
	}
	until, wait := spend(c.ChangesUntil, s.now().UTC().Truncate(time.Millisecond))
	if wait > 0 {
		return c.Identity, ErrTooManyChanges
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return Identity{}, err
	}
	c.Hash, c.ChangesUntil = hash, until
	return s.replace(ctx, c)
}

// SetPassword sets a password for the operator, without the current one and
// without a limit. Concurrent changes do not prevent it. It ends login tokens
// as ChangePassword does. The error is ErrNotFound for an unknown account.
func (s *Service) SetPassword(ctx context.Context, id, password string) error {
	c, err := s.store.ByID(ctx, id)
	if err != nil {
		return err
	}
	if err := CheckPassword(password, c.Email); err != nil {
		return err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	for {
		c, err := s.store.ByID(ctx, id)
		if err != nil {
			return err
		}
		c.Hash = hash
		if _, err = s.replace(ctx, c); !errors.Is(err, ErrOvertaken) {
			return err
		}
	}
}

// replace stores the new hash of c if its version is still current, and ends
// the login tokens.
func (s *Service) replace(ctx context.Context, c Credential) (Identity, error) {
	c.UpdatedAt = s.now().UTC().Truncate(time.Millisecond)
	err := s.store.SetPassword(ctx, c)
	if err != nil && !errors.Is(err, ErrOvertaken) {
		err = s.checkPasswordStored(ctx, c.ID, c.Hash, err)
	}
	if err != nil {
		return Identity{}, err
	}
	c.Version++
	if err := s.endLogins(ctx, c.ID, c.Version); err != nil {
		return c.Identity, fmt.Errorf("%w: %w", ErrLoginsLive, err)
	}
	return c.Identity, nil
}

// checkPasswordStored looks for the hash after a change that failed with
// cause: the database may have stored it and lost the answer. It returns nil
// if the hash is stored.
func (s *Service) checkPasswordStored(ctx context.Context, id, hash string, cause error) error {
	// The deadline of the caller may be what failed.
	stored, err := s.store.ByID(context.WithoutCancel(ctx), id)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case stored.Hash != hash:
		return cause
	}
	return nil
}

// SetOperator makes an account an operator's, or no longer one, from its next
// request on. The audit log of the gate gets it first. The error wraps
// ErrNotFound or ErrGate; then nothing was changed.
func (s *Service) SetOperator(ctx context.Context, id string, operator bool) error {
	if _, err := s.store.ByID(ctx, id); err != nil {
		return err
	}
	action := api.OperatorRevoke
	if operator {
		action = api.OperatorGrant
	}
	err := s.ask(ctx, func(ctx context.Context) error { return s.gate.Note(ctx, id, action) })
	if err != nil {
		return err
	}
	return s.store.SetOperator(ctx, id, operator)
}

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
