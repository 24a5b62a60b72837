package account

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A person changes a password at most changeBurst times at once, and once
// more for each changeEvery that has passed. An attacker who knows the
// password cannot keep the account, the database and the gate busy with
// changes, but can use up each allowance before the owner does. The way
// out is the operator's SetPassword, which is not limited. The allowance is
// stored with the account, so it holds over restarts and processes.
const (
	changeEvery = 6 * time.Minute
	changeBurst = 10
)

// spend returns what ChangesUntil is after one more change at now, and how
// long that change has to wait. It is the generic cell rate algorithm: one
// time is all that there is to store. A time that is further ahead than all
// changes together reach is of a clock that was wrong, and is ignored.
func spend(until, now time.Time) (after time.Time, wait time.Duration) {
	if until.Before(now) || until.Sub(now) > changeBurst*changeEvery {
		until = now
	}
	return until.Add(changeEvery), max(0, until.Sub(now)-(changeBurst-1)*changeEvery)
}

// ChangeIn returns how long the person has to wait before the password can
// be changed; 0 for now.
func (who Identity) ChangeIn(now time.Time) time.Duration {
	_, wait := spend(who.ChangesUntil, now)
	return wait
}

// ChangePassword changes a password for a person who is signed in, and
// knows the current one. It ends the account's login tokens: whoever
// logged in with the old password must not stay. Keys that were made in
// Settings are untouched. It returns who that is from now on.
//
// The change is stored also if the gate cannot be reached: then the error
// wraps ErrLoginsLive, and the tokens end as soon as the gate answers. With
// any other error the old password stays, unless the connection to the
// database was lost: ErrPassword, ErrCredentials, ErrTooManyChanges (with
// an Identity that tells the wait), ErrBusy, or ErrOvertaken. Of several
// changes at once, one succeeds.
func (s *Service) ChangePassword(ctx context.Context, id, current, password string) (Identity, error) {
	if err := CheckPassword(password); err != nil {
		return Identity{}, err
	}
	c, err := s.store.ByID(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return Identity{}, ErrOvertaken
	}
	if err != nil {
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
		return c.identity(), ErrTooManyChanges
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return Identity{}, err
	}
	c.ChangesUntil = until
	return s.replace(ctx, c, hash)
}

// SetPassword sets a password for the operator, whatever it is now: a
// change by others at the same moment does not prevent it. It is not
// limited, and otherwise like ChangePassword; the error is ErrNotFound for
// an unknown account.
func (s *Service) SetPassword(ctx context.Context, id, password string) error {
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return err
	}
	for {
		c, err := s.store.ByID(ctx, id)
		if err != nil {
			return err
		}
		if _, err = s.replace(ctx, c, hash); !errors.Is(err, ErrOvertaken) {
			return err
		}
	}
}

// replace stores the hash of a new password in place of the one that c was
// read with, and ends the login tokens.
func (s *Service) replace(ctx context.Context, c Credential, hash string) (Identity, error) {
	at := s.now().UTC().Truncate(time.Millisecond)
	err := s.store.SetPassword(ctx, PasswordChange{
		ID: c.ID, Version: c.Version, Hash: hash, At: at, ChangesUntil: c.ChangesUntil,
	})
	if err != nil && !errors.Is(err, ErrOvertaken) {
		err = s.settlePassword(ctx, c.ID, hash, err)
	}
	if err != nil {
		return Identity{}, err
	}
	who := c.identity()
	who.Version++
	who.UpdatedAt = at
	if err := s.endLogins(ctx, who.ID, who.Version); err != nil {
		return who, fmt.Errorf("%w: %w", ErrLoginsLive, err)
	}
	return who, nil
}

// settlePassword finds out what became of a change that failed with cause:
// it may have been made although it was reported failed. It returns nil if
// the hash turns out to be stored.
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
