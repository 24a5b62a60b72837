package redisstore

import (
	"context"
	"encoding/base64"
	"errors"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/login"
)

// Attempts keeps login attempts on a Redis server, for all gates with the
// same prefix. Each cell is a key with a TTL, in a slot of its own.
type Attempts struct {
	client *client
	prefix string
}

var _ login.Cells = (*Attempts)(nil)

// Attempts returns the login attempts of all gates.
func (s *Store) Attempts() *Attempts { return &Attempts{s.client, s.prefix} }

// Read implements login.Cells.
func (a *Attempts) Read(ctx context.Context, keys ...login.CellKey) ([]login.Cell, error) {
	cells, errs := make([]login.Cell, len(keys)), make([]error, len(keys))
	var group sync.WaitGroup
	for i, key := range keys {
		group.Go(func() { cells[i], _, errs[i] = a.run(ctx, attemptsReadScript, key) })
	}
	group.Wait()
	return cells, errors.Join(errs...)
}

// Swap implements login.Cells. The expiry is rounded up to milliseconds.
func (a *Attempts) Swap(ctx context.Context, key login.CellKey, old login.Cell, change login.Change) (login.Cell, bool, error) {
	return a.run(ctx, attemptsSwapScript, key, string(old.Value), string(change.Value),
		decimal(old.Until.UnixMicro()), decimal(change.Expires.Add(time.Millisecond-1).UnixMilli()))
}

// Save implements login.Cells. The server saves the cells.
func (a *Attempts) Save(context.Context, ...login.CellKey) error { return nil }

// run runs a script that returns the time, the value, and 1 if it was replaced.
func (a *Attempts) run(ctx context.Context, s *script, key login.CellKey, args ...string) (cell login.Cell, swapped bool, err error) {
	// The braces make the ID alone decide the slot.
	name := a.prefix + ":" + string(rune(key.Kind)) + ":{" + base64.RawURLEncoding.EncodeToString(key.ID[:]) + "}"
	ctx, cancel := a.client.within(ctx)
	defer cancel()
	reply, err := a.client.run(ctx, s, []string{name}, args)
	if err != nil {
		return login.Cell{}, false, err
	}
	r := reader{reply: reply}
	micros, value, replaced := r.int(), r.text(), r.int()
	if r.err != nil {
		return login.Cell{}, false, damaged("login attempts", r.err)
	}
	// The server read its clock before the reply arrived: Until is not too late.
	now := time.UnixMicro(micros)
	deadline, _ := ctx.Deadline()
	return login.Cell{Value: []byte(value), Now: now, Until: now.Add(time.Until(deadline))}, replaced == 1, nil
}
