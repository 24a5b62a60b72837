package redisstore

import (
	"context"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
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
func (a *Attempts) Read(ctx context.Context, key login.CellKey) (login.Cell, error) {
	cell, _, err := a.run(ctx, attemptsReadScript, key)
	return cell, err
}

// Swap implements login.Cells. The expiry is rounded up to milliseconds.
func (a *Attempts) Swap(ctx context.Context, key login.CellKey, change login.Change) (login.Cell, bool, error) {
	return a.run(ctx, attemptsSwapScript, key, string(change.Old), string(change.New),
		decimal(change.Until.UnixMicro()), decimal(change.Expires.Add(time.Millisecond-1).UnixMilli()))
}

// run runs a script that returns the time, the value, and 1 if it was replaced.
func (a *Attempts) run(ctx context.Context, s *script, key login.CellKey, args ...string) (cell login.Cell, swapped bool, err error) {
	// The braces make the ID alone decide the slot.
	name := a.prefix + ":c:{" + key.ID + "}"
	if key.Kind == login.AccountCell {
		name = a.prefix + ":e:{" + key.ID + "}"
	}
	reply, err := a.client.runWithin(ctx, s, []string{name}, args)
	if err != nil {
		return login.Cell{}, false, err
	}
	r := reader{reply: reply}
	now, value, replaced := r.int(), r.text(), r.int()
	if r.err != nil {
		return login.Cell{}, false, damaged("login attempts", r.err)
	}
	return login.Cell{Value: []byte(value), Now: time.UnixMicro(now)}, replaced == 1, nil
}
