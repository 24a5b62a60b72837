package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tollgate/tollgate/internal/store/benchtest"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// tripCalls is the number of calls of a round whose commands are counted.
const tripCalls = 50

// redis is a running redis-server.
type redis struct {
	*redistest.Server
	pid int
}

// startRedis starts a redis-server that syncs its log every second, as the
// store badger does with "sync off".
func (b *bench) startRedis(ctx context.Context, options ...string) (*redis, error) {
	dir, err := os.MkdirTemp(b.dir, "redis-")
	if err != nil {
		return nil, err
	}
	server, err := redistest.Launch(dir, append(options, "appendonly yes", "appendfsync everysec")...)
	if err != nil {
		return nil, err
	}
	b.stops = append(b.stops, func() error {
		if err := server.Stop(); err != nil && ctx.Err() == nil {
			return err
		}
		return nil // Ctrl-C in a terminal ends the server as well
	})
	r := &redis{Server: server}
	text, err := r.info("server", "process_id")
	if err != nil {
		return nil, err
	}
	r.pid, err = strconv.Atoi(text)
	return r, err
}

// info returns a field of a section of INFO, or "" if the section lacks it.
func (r *redis) info(section, field string) (string, error) {
	reply, err := r.Do("INFO", section)
	if err != nil {
		return "", err
	}
	text, _ := reply.(string)
	return infoField(text, field), nil
}

func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commands returns how many scripts clients have run. A gate sends no other
// commands once it has seen its tokens. The sum of all commands would also
// count what scripts call.
func (r *redis) commands() (int64, error) {
	text, err := r.info("commandstats", "cmdstat_evalsha")
	if err != nil {
		return 0, err
	}
	return callsOf(text)
}

// callsOf reads the number in a line such as calls=21,usec=175,failed_calls=0.
// Without the line, there was no call.
func callsOf(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	first, _, _ := strings.Cut(text, ",")
	number, found := strings.CutPrefix(first, "calls=")
	if !found {
		return 0, fmt.Errorf("missing number of calls in %q", text)
	}
	return strconv.ParseInt(number, 10, 64)
}

// openRedis opens a store and waits until it is connected.
func openRedis(ctx context.Context, r *redis) (*benchtest.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return benchtest.OpenRedis(ctx, r.URL())
}

// startRedisAtSocket starts a redis-server that also listens on a Unix socket.
func (b *bench) startRedisAtSocket(ctx context.Context) (r *redis, socket string, err error) {
	// The path of a Unix socket may have 107 bytes.
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, "", err
	}
	b.stops = append(b.stops, func() error { return os.RemoveAll(dir) })
	socket = filepath.Join(dir, "redis")
	if r, err = b.startRedis(ctx, "unixsocket "+socket, "unixsocketperm 700"); err != nil {
		return nil, "", fmt.Errorf("starting redis-server: %w", err)
	}
	return r, socket, nil
}

// startRedisGate starts a gate on a redis-server, at a URL of the server.
func (b *bench) startRedisGate(ctx context.Context, r *redis, url, handler string) (*gate, error) {
	db, err := openRedis(ctx, r)
	if err != nil {
		return nil, err
	}
	return b.startGateOn(ctx, db, fmt.Sprintf("store redis %q", url), handler)
}

// redisSides are the sides of measureRedis. A gate is a side for each of its
// plans.
type redisSides struct {
	badger      baseline
	badgerFour  *side
	oneOnRedis  *side
	fourOnRedis *side
}

// measureRedis compares a gate on a redis-server of the same machine with
// gates on badger stores.
func measureRedis(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	first, err := b.startGate(ctx, "sync off", proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	second, err := b.startGate(ctx, "sync off", proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	r, err := b.startRedis(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting redis-server: %w", err)
	}
	g, err := b.startRedisGate(ctx, r, r.URL(), proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	var sides [5]*side
	for i, s := range []struct {
		gate   *gate
		redis  *redis
		tokens []string
	}{{first, nil, first.ample}, {second, nil, second.ample}, {g, r, g.ample}, {first, nil, first.four}, {g, r, g.four}} {
		generator, err := newGenerator(b.dir, s.tokens, false)
		if err != nil {
			return nil, err
		}
		sides[i] = &side{server: s.gate.server, generator: generator, redis: s.redis}
	}
	if err := loadInTurn(ctx, b, baseline{sides[0], sides[1]}, sides[2:]...); err != nil {
		return nil, err
	}
	trips, err := countTrips(ctx, g, r, b.rounds)
	if err != nil {
		return nil, fmt.Errorf("counting round trips: %w", err)
	}
	return redisRows(redisSides{baseline{sides[0], sides[1]}, sides[3], sides[2], sides[4]}, trips), nil
}

func redisRows(s redisSides, trips values) []row {
	one, four := s.oneOnRedis.rounds, s.fourOnRedis.rounds
	hashes, hashesFour := inH(valuesOf(one, hash)), inH(valuesOf(four, hash))
	// Equal sides with one limit show the noise of this row as well.
	withFour := s.badger.between("  requests/s with four limits on a call", atLeast(0.65), rate, s.fourOnRedis, s.badgerFour)
	return []row{
		s.badger.ratio("store redis against badger, a limit of a day, requests/s", atLeast(0.70), rate, s.oneOnRedis),
		withFour,
		s.badger.ratio("  p99", target{}, p99, s.oneOnRedis),
		s.badger.ratio("  processor time of Caddy per request", target{}, cpu, s.oneOnRedis),
		{what: "  processor time of redis-server per request", unit: asMicros, in: hashes, measured: valuesOf(one, redisCPU)},
		{what: "  the same with four limits on a call", unit: asMicros, in: hashesFour, measured: valuesOf(four, redisCPU)},
		{what: "  round trips per admitted call", target: atMost(1), unit: asCount, measured: trips},
		{what: "  scripts per request, with those that follow the answers", unit: asRatio, measured: valuesOf(one, redisCommands)},
		s.badger.alone("store badger, a limit of a day, requests/s", asCount, rate),
		s.badger.time("  processor time of Caddy per request", cpu),
	}
}

// countTrips makes calls one after the other, with keys that the gate knows,
// and counts the commands that the server gets from one to the next. The
// smallest number of a round leaves out what a gate sends every second, also
// where a call takes seconds.
func countTrips(ctx context.Context, g *gate, r *redis, rounds int) (trips values, err error) {
	c, err := connect(ctx, g.address, requestsOf(g.address, g.ample))
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
		perCall := make(values, 0, tripCalls)
		for range tripCalls {
			if _, err := c.call(); err != nil {
				return nil, err
			}
			sent, err := r.Sent()
			if err != nil {
				return nil, err
			}
			perCall = append(perCall, float64(len(sent)-before))
			before = len(sent)
		}
		trips = append(trips, slices.Min(perCall))
	}
	if _, err := r.Do("CONFIG", "SET", "slowlog-log-slower-than", "-1"); err != nil {
		return nil, err
	}
	return trips, ctx.Err()
}
