package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// errAttemptsReply is the error for a reply that the scripts do not give.
var errAttemptsReply = errors.New("unexpected reply of a script for login attempts")

// Attempts keeps login attempts on a Redis server, for all gates with the
// same prefix. Each cell is a key with a TTL, in a slot of its own.
type Attempts struct {
	client *client
	prefix string
}

// Attempts returns the login attempts of all gates.
func (s *Store) Attempts() *Attempts { return &Attempts{s.client, s.prefix} }

// Read implements login.Cells.
func (a *Attempts) Read(ctx context.Context, key login.CellKey) (login.Cell, error) {
	reply, err := a.client.runWithin(ctx, attemptsReadScript, []string{a.key(key)}, nil)
	if err != nil {
		return login.Cell{}, err
	}
	return readCell(reply, 2)
}

// Swap implements login.Cells. The expiry is rounded up to milliseconds.
func (a *Attempts) Swap(ctx context.Context, key login.CellKey, change login.Change) (login.Cell, bool, error) {
	reply, err := a.client.runWithin(ctx, attemptsSwapScript, []string{a.key(key)}, []string{
		string(change.Old),
		string(change.New),
		strconv.FormatInt(change.Until.UnixMicro(), 10),
		strconv.FormatInt(change.Expires.Add(time.Millisecond-1).UnixMilli(), 10),
	})
	if err != nil {
		return login.Cell{}, false, err
	}
	cell, err := readCell(reply, 3)
	if err != nil {
		return login.Cell{}, false, err
	}
	swapped, err := reply[2].AsInt64()
	if err != nil {
		return login.Cell{}, false, fmt.Errorf("%w: %w", errAttemptsReply, err)
	}
	return cell, swapped == 1, nil
}

// key is the name of a cell. The braces make the ID alone decide the slot.
func (a *Attempts) key(key login.CellKey) string {
	table := ":c:{"
	if key.Kind == login.AccountCell {
		table = ":e:{"
	}
	return a.prefix + table + key.ID + "}"
}

// readCell reads the time and the value, the first two elements of a reply.
func readCell(reply []rueidis.RedisMessage, elements int) (login.Cell, error) {
	if len(reply) != elements {
		return login.Cell{}, fmt.Errorf("%w: %d elements, want %d", errAttemptsReply, len(reply), elements)
	}
	now, err := reply[0].AsInt64()
	if err != nil {
		return login.Cell{}, fmt.Errorf("%w: %w", errAttemptsReply, err)
	}
	value, err := reply[1].AsBytes()
	if err != nil {
		return login.Cell{}, fmt.Errorf("%w: %w", errAttemptsReply, err)
	}
	return login.Cell{Value: value, Now: time.UnixMicro(now)}, nil
}

// Interface guard.
var _ login.Cells = (*Attempts)(nil)
