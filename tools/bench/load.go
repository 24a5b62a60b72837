package main

import (
	"context"
	"errors"
	"fmt"
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
	memory

	redisCPU      float64 // nanoseconds of processor time of the redis-server per request
	redisCommands float64 // commands to the redis-server per request
}

// Figures of a round.
func rate(m measured) float64 { return m.rate }
func cpu(m measured) float64  { return m.cpu }
func p50(m measured) float64  { return m.p50 }
func p99(m measured) float64  { return m.p99 }

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
		p50: 1e3 * float64(l.P50), p99: 1e3 * float64(l.P99), memory: after.memory,
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
// starts with another side, so that the order of the sides has no effect.
func loadInTurn(ctx context.Context, b *bench, sides ...*side) error {
	for _, side := range sides {
		if _, err := side.generator.run(ctx, side.address, time.Second); err != nil {
			return fmt.Errorf("warming up: %w", err)
		}
	}
	for round := range b.rounds {
		for i := range sides {
			side := sides[(i+round)%len(sides)]
			if err := side.load(ctx, time.Duration(b.seconds)*time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// baseline is a server twice: the second shows the noise. Most are Caddy
// without a gate.
type baseline struct{ first, second *side }

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

// measureProxy compares the gate in front of a proxy with the proxy alone.
func measureProxy(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	first, second, err := b.startProxies(ctx, proxyTo(upstream), http.StatusOK)
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
	base := baseline{&side{server: first, generator: gate.generator}, &side{server: second, generator: gate.generator}}
	if err := loadInTurn(ctx, b, base.first, base.second, gate, synced); err != nil {
		return nil, err
	}
	return []row{
		base.ratio("gate and proxy against proxy, requests/s", atLeast(0.96), rate, gate),
		base.ratio("  processor time per request", atMost(1.06), cpu, gate),
		base.ratio("  p99", atMost(1.05), p99, gate),
		base.ratio("  requests/s with sync on", atLeast(0.85), rate, synced),
		base.added("  memory, resident, 100 keys", atMost(25<<20), resident, gate),
		base.added("  memory, proportional", target{}, func(m measured) float64 { return m.proportional }, gate),
		base.added("  memory, anonymous", target{}, func(m measured) float64 { return m.anonymous }, gate),
		base.alone("proxy alone, requests/s", asCount, rate),
		base.alone("  processor time per request", asMicros, cpu),
	}, nil
}
