package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// sharedReservation is the Attempt of a Shared.
type sharedReservation struct {
	request
	shared    *Shared
	clientAt  int64 // in the cell of the client
	accountAt int64 // in the cell of the account
	lost      bool  // whether a change lost against another attempt
}

// reserve applies both rules, and counts the attempt if both admit it: in
// the client's cell first. If the account's cell then refuses it, the client
// gets its place back.
func (r *sharedReservation) reserve(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, r.shared.timeout)
	defer cancel()
	client, account, err := r.read(ctx)
	if err != nil {
		return 0, err
	}
	// Ask both before anything is written: the longer wait decides.
	clientSays, err := r.judgeClient(client)
	if err != nil {
		return 0, err
	}
	accountSays, err := r.judgeAccount(account)
	if err != nil {
		return 0, err
	}
	// A client that goes away does not interrupt the writing. Otherwise it
	// could leave attempts that only one of the cells has.
	deadline, _ := ctx.Deadline()
	ctx, cancelWrites := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancelWrites()
	if wait := max(clientSays.wait, accountSays.wait); wait > 0 {
		return wait, r.moveBack(ctx, clientSays, accountSays)
	}
	said, err := r.take(ctx, r.client.cellKey(), client, r.judgeClient)
	if err != nil || said.wait > 0 {
		return said.wait, err
	}
	r.clientAt = said.at
	if !r.hasAccount() {
		return 0, nil
	}
	said, err = r.take(ctx, r.account.cellKey(), account, r.judgeAccount)
	if err != nil || said.wait > 0 {
		if released := r.updateClient(ctx, func(c *clientState) { c.release(r.clientAt) }); released != nil {
			// The client has one attempt less until the window has passed.
			r.shared.outages.Failed(slog.Any("error", released))
		}
		return said.wait, err
	}
	r.accountAt, r.known = said.at, said.known
	return 0, nil
}

// read reads both cells at once.
func (r *sharedReservation) read(ctx context.Context) (client, account view, err error) {
	if !r.hasAccount() {
		client, err = r.shared.read(ctx, r.client.cellKey())
		return client, view{}, err
	}
	failed := make(chan error, 1)
	go func() {
		var err error
		account, err = r.shared.read(ctx, r.account.cellKey())
		failed <- err
	}()
	client, err = r.shared.read(ctx, r.client.cellKey())
	if other := <-failed; err == nil {
		err = other
	}
	return client, account, err
}

// take writes the attempt to a cell if the rule still admits it.
func (r *sharedReservation) take(ctx context.Context, key CellKey, seen view, judge rule) (verdict, error) {
	said, lost, err := r.shared.apply(ctx, key, seen, judge)
	r.lost = r.lost || lost
	return said, err
}

// moveBack writes the times that moved back, even if the attempt is refused.
// Otherwise they would move again at the next attempt, and the wait would
// never end. If another attempt changed the cell, it has moved them.
func (r *sharedReservation) moveBack(ctx context.Context, client, account verdict) error {
	if client.wait > 0 && client.write {
		if _, _, err := r.shared.cells.Swap(ctx, r.client.cellKey(), client.change); err != nil {
			return fmt.Errorf("moving login attempts of a client: %w", err)
		}
	}
	if account.wait > 0 && account.write {
		if _, _, err := r.shared.cells.Swap(ctx, r.account.cellKey(), account.change); err != nil {
			return fmt.Errorf("moving login attempts at an account: %w", err)
		}
	}
	return nil
}

// judgeClient applies the rule per client.
func (r *sharedReservation) judgeClient(seen view) (verdict, error) {
	attempts, at, err := r.clientState(seen)
	if err != nil {
		return verdict{}, err
	}
	said := verdict{at: at.instant, write: true}
	if opens := attempts.opens(); opens > at.instant {
		said.wait = time.Duration(opens - at.reading)
		said.write = at.back > 0
	} else {
		attempts.add(at.instant)
	}
	said.change = seen.change(encodeClientCell(attempts.clientLog), attempts.expires())
	return said, nil
}

// updateClient changes the cell of the client.
func (r *sharedReservation) updateClient(ctx context.Context, edit func(*clientState)) error {
	return r.shared.update(ctx, r.client.cellKey(), func(seen view) (verdict, error) {
		attempts, _, err := r.clientState(seen)
		if err != nil {
			return verdict{}, err
		}
		edit(attempts)
		change := seen.change(encodeClientCell(attempts.clientLog), attempts.expires())
		return verdict{write: !bytes.Equal(change.New, change.Old), change: change}, nil
	})
}

func (r *sharedReservation) clientState(seen view) (*clientState, placed, error) {
	log, err := decodeClientCell(seen.Value)
	if err != nil {
		return nil, placed{}, err
	}
	at := place(seen.Now, log.latest())
	log.moveBack(at.back)
	return newClientState(r.limits, log, at.instant), at, nil
}

// judgeAccount applies the rule per account.
func (r *sharedReservation) judgeAccount(seen view) (verdict, error) {
	if !r.hasAccount() {
		return verdict{}, nil
	}
	state, at, err := r.accountState(seen)
	if err != nil {
		return verdict{}, err
	}
	said := verdict{at: at.instant, known: state.own != nil, write: true}
	if opens := state.opens(); opens > at.instant {
		said.wait = time.Duration(opens - at.reading)
		said.write = at.back > 0
	} else {
		state.fail(at.instant)
	}
	said.change = seen.accountChange(state)
	return said, nil
}

func (r *sharedReservation) accountState(seen view) (*accountState, placed, error) {
	failed, known, err := decodeAccountCell(seen.Value)
	if err != nil {
		return nil, placed{}, err
	}
	at := place(seen.Now, known.latest(failed))
	failed.moveBack(at.back)
	known.moveBack(at.back)
	return newAccountState(r.limits, r.fingerprint, failed, known, at.instant), at, nil
}

func (v view) accountChange(a *accountState) Change {
	return v.change(encodeAccountCell(a.failures, a.known), max(a.failuresExpire(), a.knownExpire()))
}

// Succeeded implements Attempt. The time of the server decides, not now.
func (r *sharedReservation) Succeeded(ctx context.Context, _ time.Time) error {
	if r.settled.Swap(true) {
		return nil
	}
	err := r.updateAccount(ctx, func(state *accountState, instant int64) { state.succeed(instant) })
	if !r.limits.Strict {
		ctx, cancel := context.WithTimeout(ctx, r.shared.timeout)
		defer cancel()
		err = errors.Join(err, r.updateClient(ctx, func(c *clientState) { c.succeed(r.clientAt) }))
	}
	if err != nil {
		return fmt.Errorf("saving login success: %w", err)
	}
	return nil
}

// Abandoned implements Attempt.
func (r *sharedReservation) Abandoned(ctx context.Context) error {
	if r.settled.Swap(true) {
		return nil
	}
	err := r.updateAccount(ctx, func(state *accountState, _ int64) { state.release(r.accountAt, r.known) })
	if err != nil {
		return fmt.Errorf("saving abandoned login attempt: %w", err)
	}
	return nil
}

// updateAccount changes the cell of the account, if the attempt has one.
func (r *sharedReservation) updateAccount(ctx context.Context, outcome func(state *accountState, instant int64)) error {
	if !r.hasAccount() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.shared.timeout)
	defer cancel()
	return r.shared.update(ctx, r.account.cellKey(), func(seen view) (verdict, error) {
		state, at, err := r.accountState(seen)
		if err != nil {
			return verdict{}, err
		}
		outcome(state, at.instant)
		change := seen.accountChange(state)
		return verdict{write: !bytes.Equal(change.New, change.Old), change: change}, nil
	})
}

// Interface guard.
var _ Attempt = (*sharedReservation)(nil)
