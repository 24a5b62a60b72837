package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/store/benchtest"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// tripCalls is the number of calls of a round whose commands are counted.
const tripCalls = 50

// redis is a running redis-server.
type redis struct {
	*redistest.Server
	socket string // beside its TCP port
}

// startRedis starts a redis-server that syncs its log every second, as the
// store badger does with "sync off".
func (b *bench) startRedis() (*redis, error) {
	// The path of a Unix socket may have 107 bytes.
	short, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	b.stops = append(b.stops, func() error { return os.RemoveAll(short) })
	dir, err := os.MkdirTemp(b.dir, "redis-")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(short, "redis")
	server, err := redistest.Launch(dir, "unixsocket "+socket, "unixsocketperm 700", "appendonly yes", "appendfsync everysec")
	if err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	b.stops = append(b.stops, server.Stop)
	return &redis{server, socket}, nil
}

// startRedisGate starts a gate on a redis-server, at a URL of the server.
func (b *bench) startRedisGate(ctx context.Context, r *redis, url, handler string) (*gate, error) {
	opening, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	db, err := benchtest.OpenRedis(opening, r.URL())
	if err != nil {
		return nil, err
	}
	return b.startGateOn(ctx, db, fmt.Sprintf("store redis %q", url), handler)
}

// measureRedis compares a gate on a redis-server of the same machine with
// gates on badger stores.
func measureRedis(ctx context.Context, b *bench) ([]row, error) {
	var gates [2]*gate
	for i := range gates {
		g, err := b.startGate(ctx, "sync off", proxyTo(b.upstream))
		if err != nil {
			return nil, err
		}
		gates[i] = g
	}
	r, err := b.startRedis()
	if err != nil {
		return nil, err
	}
	g, err := b.startRedisGate(ctx, r, r.URL(), proxyTo(b.upstream))
	if err != nil {
		return nil, err
	}
	badger, badgerFour := baseline{gates[0].with(gates[0].ample), gates[1].with(gates[1].ample)}, gates[0].with(gates[0].four)
	one, four := g.with(g.ample), g.with(g.four)
	one.also, four.also = []int{r.PID()}, []int{r.PID()}
	if err := loadInTurn(ctx, b, badger, badgerFour, one, four); err != nil {
		return nil, err
	}
	trips, err := countTrips(ctx, g, r, b.rounds)
	if err != nil {
		return nil, fmt.Errorf("counting round trips: %w", err)
	}
	return []row{
		badger.ratio("store redis against badger, a limit of a day, requests/s", atLeast(0.70), rate, one),
		// Equal sides with one limit show the noise of this row as well.
		badger.between("  requests/s with four limits on a call", atLeast(0.65), rate, four, badgerFour),
		one.perSecond("  store redis"),
		{what: "  processor time of redis-server per request", unit: asMicros, in: inH(valuesOf(one.rounds, hash)), measured: valuesOf(one.rounds, alsoCPU)},
		{what: "  round trips per admitted call", target: atMost(1), unit: asCount, measured: trips},
	}, nil
}

// countTrips makes calls one after the other, with keys that the gate knows,
// and counts the commands that the server gets from one to the next. The
// smallest number of a round leaves out what a gate sends every second, also
// where a call takes seconds.
func countTrips(ctx context.Context, g *gate, r *redis, rounds int) (trips values, err error) {
	c, err := connect(ctx, g.address, g.ample)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for range g.ample { // the first call with a key reads its account
		if _, err := c.call(); err != nil {
			return nil, err
		}
	}
	if err := r.Watch(); err != nil {
		return nil, err
	}
	before := 0
	for range rounds {
		perCall := make(values, tripCalls)
		for i := range perCall {
			if _, err := c.call(); err != nil {
				return nil, err
			}
			sent, err := r.Sent()
			if err != nil {
				return nil, err
			}
			perCall[i] = float64(len(sent) - before)
			before = len(sent)
		}
		trips = append(trips, slices.Min(perCall))
	}
	return trips, ctx.Err()
}
