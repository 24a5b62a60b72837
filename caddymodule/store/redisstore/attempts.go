package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

//go:embed lua/readattempts.lua
var readAttemptsLua string

//go:embed lua/swapattempts.lua
var swapAttemptsLua string

var (
	readAttemptsScript = newScript(readAttemptsLua)
	swapAttemptsScript = newScript(swapAttemptsLua)
)

// Attempts keeps login attempts on the server, for all gates with the same
// prefix. Each cell is a key with a TTL, in a slot of its own. Errors are
// store.ErrUnavailable.
type Attempts struct {
	client *client
	prefix string
}

// Attempts returns the login attempts of the store. They use its connections.
func (s *Store) Attempts() *Attempts { return &Attempts{s.client, s.prefix} }

// Read implements login.Cells.
func (a *Attempts) Read(ctx context.Context, key login.CellKey) (login.Cell, error) {
	ctx, cancel := a.client.within(ctx)
	defer cancel()
	answer, err := a.client.run(ctx, readAttemptsScript, []string{a.key(key)}, nil)
	if err != nil {
		return login.Cell{}, err
	}
	return readCell(answer, 2)
}

// Swap implements login.Cells. The expiry is rounded up to milliseconds.
func (a *Attempts) Swap(ctx context.Context, key login.CellKey, change login.Change) (login.Cell, bool, error) {
	ctx, cancel := a.client.within(ctx)
	defer cancel()
	answer, err := a.client.run(ctx, swapAttemptsScript, []string{a.key(key)}, []string{
		string(change.Old),
		string(change.New),
		strconv.FormatInt(change.Until.UnixMicro(), 10),
		strconv.FormatInt(change.Expires.Add(time.Millisecond-1).UnixMilli(), 10),
	})
	if err != nil {
		return login.Cell{}, false, err
	}
	cell, err := readCell(answer, 3)
	if err != nil {
		return login.Cell{}, false, err
	}
	swapped, err := answer[2].AsInt64()
	if err != nil {
		return login.Cell{}, false, unavailable(err)
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

// readCell reads the time and the value, the first elements of an answer.
func readCell(answer []rueidis.RedisMessage, elements int) (login.Cell, error) {
	if len(answer) != elements {
		return login.Cell{}, unavailable(fmt.Errorf("got %d elements of login attempts, want %d", len(answer), elements))
	}
	now, err := answer[0].AsInt64()
	if err != nil {
		return login.Cell{}, unavailable(err)
	}
	value, err := answer[1].AsBytes()
	if err != nil {
		return login.Cell{}, unavailable(err)
	}
	return login.Cell{Value: value, Now: time.UnixMicro(now)}, nil
}

// Interface guard.
var _ login.Cells = (*Attempts)(nil)
