package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"
)

// side is a server that is compared with others, under one kind of load.
type side struct {
	*server
	also      []int // further processes that work for it and count as its own
	generator generator
	redis     *redis // the server of its store; nil if it has none
	rounds    []measured
}

// measured is the result of one round on one side.
type measured struct {
	rate float64 // requests per second
	cpu  float64 // nanoseconds of processor time per request
	p50  float64 // nanoseconds
	p99  float64
	hash float64 // H near the round
	memory

	redisCPU      float64 // nanoseconds of processor time of the redis-server per request
	redisCommands float64 // commands to the redis-server per request
}

// Figures of a round.
func rate(m measured) float64 { return m.rate }
func cpu(m measured) float64  { return m.cpu }
func p50(m measured) float64  { return m.p50 }
func p99(m measured) float64  { return m.p99 }
func hash(m measured) float64 { return m.hash }

func resident(m measured) float64 { return m.resident }

func redisCPU(m measured) float64      { return m.redisCPU }
func redisCommands(m measured) float64 { return m.redisCommands }

// spent is what the processes of a side have used since they started.
type spent struct {
	cpu           time.Duration
	memory        memory // now
	redisCPU      time.Duration
	redisCommands int64
}

func (s *side) spent() (t spent, err error) {
	if t.cpu, t.memory, err = s.usage(); err != nil || s.redis == nil {
		return t, err
	}
	if t.redisCPU, _, err = usageOf(s.redis.pid); err != nil {
		return t, err
	}
	t.redisCommands, err = s.redis.commands()
	return t, err
}

// usage is the sum of all processes. The processes of nginx share pages with
// each other and with no other program: of these, the resident memory is the
// proportional one.
func (s *side) usage() (cpu time.Duration, m memory, err error) {
	for _, pid := range slices.Concat([]int{s.pid()}, s.workers, s.also) {
		spent, used, err := usageOf(pid)
		if err != nil {
			return 0, m, err
		}
		if len(s.workers) > 0 && !slices.Contains(s.also, pid) {
			used.resident = used.proportional
		}
		cpu += spent
		m.add(used)
	}
	return cpu, m, nil
}

// perRequest is the result of a load between two readings.
func perRequest(before, after spent, l load) measured {
	requests := float64(l.Requests)
	return measured{
		rate: l.rate(), cpu: float64(after.cpu-before.cpu) / requests,
		hash: hashTime(), p50: 1e3 * float64(l.P50), p99: 1e3 * float64(l.P99), memory: after.memory,
		redisCPU:      float64(after.redisCPU-before.redisCPU) / requests,
		redisCommands: float64(after.redisCommands-before.redisCommands) / requests,
	}
}

// load loads a side for one round.
func (s *side) load(ctx context.Context, duration time.Duration) error {
	before, err := s.spent()
	if err != nil {
		return err
	}
	l, err := s.generator.run(ctx, s.address, duration)
	if err != nil {
		return errors.Join(err, errors.New(s.messages()))
	}
	after, err := s.spent()
	if err != nil {
		return err
	}
	s.rounds = append(s.rounds, perRequest(before, after, l))
	return nil
}

// loadInTurn warms up all sides and then loads them in turn. Each round
// starts with another side, so that the order of the sides has no effect. A
// round in which the equal sides differ too much is repeated, at most a third
// of the rounds.
func loadInTurn(ctx context.Context, b *bench, equal baseline, others ...*side) error {
	sides := append([]*side{equal.first, equal.second}, others...)
	for _, side := range sides {
		if _, err := side.generator.run(ctx, side.address, time.Second); err != nil {
			return fmt.Errorf("warming up: %w", err)
		}
	}
	repeats := b.rounds / 3
	for first := 0; len(equal.first.rounds) < b.rounds; first++ {
		for i := range sides {
			side := sides[(i+first)%len(sides)]
			if err := side.load(ctx, time.Duration(b.seconds)*time.Second); err != nil {
				return err
			}
		}
		if repeats > 0 && equal.differs() {
			repeats--
			b.repeated++
			for _, side := range sides {
				side.rounds = side.rounds[:len(side.rounds)-1]
			}
		}
	}
	return nil
}

// baseline is a server twice: the second shows the noise. Most are Caddy
// without a gate.
type baseline struct{ first, second *side }

// differs tells whether the equal sides differ too much in the last round.
func (b baseline) differs() bool {
	last := len(b.first.rounds) - 1
	return math.Abs(b.second.rounds[last].rate/b.first.rounds[last].rate-1) > maxNoise
}

// ratio is a row that divides the figures of a side by the baseline's.
func (b baseline) ratio(what string, t target, figure func(measured) float64, s *side) row {
	return b.between(what, t, figure, s, b.first)
}

// between is a row that divides the figures of a side by those of another,
// with the noise of the baseline.
func (b baseline) between(what string, t target, figure func(measured) float64, s, other *side) row {
	return row{
		what: what, target: t, unit: asRatio, expected: 1,
		measured: ratios(valuesOf(s.rounds, figure), valuesOf(other.rounds, figure)),
		noise:    ratios(valuesOf(b.second.rounds, figure), valuesOf(b.first.rounds, figure)),
	}
}

// added is a row of the memory that a side uses more than the baseline.
func (b baseline) added(what string, t target, figure func(measured) float64, s *side) row {
	first := valuesOf(b.first.rounds, figure)
	return row{
		what: what, target: t, unit: asMiB,
		measured: differences(valuesOf(s.rounds, figure), first),
		noise:    differences(valuesOf(b.second.rounds, figure), first),
	}
}

// alone is a row of the baseline itself.
func (b baseline) alone(what string, u unit, figure func(measured) float64) row {
	first := valuesOf(b.first.rounds, figure)
	return row{what: what, unit: u, measured: first, noise: valuesOf(b.second.rounds, figure), expected: first.median()}
}

// time is a row of a time of the baseline.
func (b baseline) time(what string, figure func(measured) float64) row {
	r := b.alone(what, asMicros, figure)
	r.in = inH(valuesOf(b.first.rounds, hash))
	r.expected = r.multiples(r.measured).median()
	return r
}

// commits are the metrics of the groups of calls that a gate has committed:
// their number, their calls and their seconds.
var commits = []string{"caddy_tollgate_commit_calls_count", "caddy_tollgate_commit_calls_sum", "caddy_tollgate_commit_seconds_sum"}

// measureProxy compares the gate in front of a proxy with a proxy that sets the
// same headers. Headers have a cost without a gate, too: no handler that sets
// them is as fast as the proxy alone, which is measured beside.
func measureProxy(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	first, second, err := b.startProxies(ctx, proxyTo(upstream, gateHeaders), http.StatusOK)
	if err != nil {
		return nil, err
	}
	bareServer, err := b.startCaddy(ctx, caddyConfig{site: proxyTo(upstream)}, answers{status: http.StatusOK})
	if err != nil {
		return nil, err
	}
	var gates [2]*side
	for i, options := range []string{"sync off", "sync on"} {
		g, err := b.startGate(ctx, options, proxyTo(upstream))
		if err != nil {
			return nil, err
		}
		generator, err := newGenerator(b.dir, g.ample, false)
		if err != nil {
			return nil, err
		}
		gates[i] = &side{server: g.server, generator: generator}
	}
	gate, synced := gates[0], gates[1]
	// The proxies get the same requests as the gate, with the tokens.
	bare := &side{server: bareServer, generator: gate.generator}
	base := baseline{&side{server: first, generator: gate.generator}, &side{server: second, generator: gate.generator}}
	// Another load generator makes the same requests.
	callers := generator{tokens: gate.generator.tokens}
	called := baseline{&side{server: first, generator: callers}, &side{server: second, generator: callers}}
	gateCalled := &side{server: gate.server, generator: callers}
	before, err := readMetrics(ctx, synced.admin, commits...)
	if err != nil {
		return nil, err
	}
	if err := loadInTurn(ctx, b, base, bare, gate, synced, called.first, called.second, gateCalled); err != nil {
		return nil, err
	}
	after, err := readMetrics(ctx, synced.admin, commits...)
	if err != nil {
		return nil, err
	}
	groups := differences(after, before)
	return []row{
		base.ratio("gate and proxy against a proxy that sets the same headers, requests/s", atLeast(0.97), rate, gate),
		base.ratio("  processor time per request", atMost(1.04), cpu, gate),
		base.ratio("  p99", atMost(1.05), p99, gate),
		called.ratio("  requests/s, by a client in Go in place of wrk", atLeast(0.97), rate, gateCalled),
		called.ratio("  processor time per request, by the same", atMost(1.04), cpu, gateCalled),
		base.between("gate and proxy against proxy alone, requests/s", target{}, rate, gate, bare),
		base.between("  processor time per request", target{}, cpu, gate, bare),
		base.between("the same headers against proxy alone, requests/s", target{}, rate, base.first, bare),
		base.between("  processor time per request", target{}, cpu, base.first, bare),
		base.ratio("gate with sync on, and proxy, against the same headers, requests/s", atLeast(0.85), rate, synced),
		{what: "  calls that share a sync", unit: asTenths, measured: values{groups[1] / groups[0]}},
		{what: "  time of a write and its sync", unit: asMicros, measured: values{1e9 * groups[2] / groups[0]}},
		base.added("memory, resident, that the gate adds to the same headers, 100 keys", atMost(40<<20), resident, gate),
		baseline{bare, bare}.alone("proxy alone, requests/s", asCount, rate),
		baseline{bare, bare}.time("  processor time per request", cpu),
	}, nil
}
