package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// side is one of those that are loaded in turn, and what each round
// showed.
type side struct {
	*caddy
	generator generator

	rate      samples // requests per second
	processor samples // nanoseconds of processor time per request
	p99       samples // microseconds
	memory    []memory
}

// load loads a side once and notes what it showed.
func (s *side) load(ctx context.Context, length time.Duration) error {
	before, err := processorTime(s.pid())
	if err != nil {
		return err
	}
	l, err := s.generator.run(ctx, s.address, length)
	if err != nil {
		return errors.Join(err, errors.New(s.messages()))
	}
	after, err := processorTime(s.pid())
	if err != nil {
		return err
	}
	memory, err := memoryOf(s.pid())
	if err != nil {
		return err
	}
	s.rate = append(s.rate, l.rate())
	s.processor = append(s.processor, float64(after-before)/float64(l.Requests))
	s.p99 = append(s.p99, float64(l.P99))
	s.memory = append(s.memory, memory)
	return nil
}

// loadInTurn warms all sides up and then loads one after the other, in
// each round beginning with another: no side is always the one that comes
// after a certain other.
func loadInTurn(ctx context.Context, s *settings, sides ...*side) error {
	for _, side := range sides {
		if _, err := side.generator.run(ctx, side.address, time.Second); err != nil {
			return fmt.Errorf("warming up: %w", err)
		}
	}
	for round := range s.rounds {
		for i := range sides {
			side := sides[(i+round)%len(sides)]
			if err := side.load(ctx, time.Duration(s.seconds)*time.Second); err != nil {
				return err
			}
		}
	}
	return nil
}

// compared is a row that holds side b against side a, with twin, which is
// just like a, for the noise.
func compared(what string, b bar, of func(*side) samples, against, twin, side *side) row {
	return row{
		what: what, bar: b, unit: asRatio, neutral: 1,
		measured: ratios(of(side), of(against)), noise: ratios(of(twin), of(against)),
	}
}

// measureProxy compares the gate in front of a proxy with the proxy
// alone.
func measureProxy(ctx context.Context, s *settings) (rows []row, err error) {
	f, err := startFleet(ctx, s, true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	generator, err := newGenerator(s.dir, "open", f.gate.open, false)
	if err != nil {
		return nil, err
	}
	others, err := newGenerator(s.dir, "synced", f.synced.open, false)
	if err != nil {
		return nil, err
	}
	bare := &side{caddy: f.bare, generator: generator}
	twin := &side{caddy: f.twin, generator: generator}
	gate := &side{caddy: f.gate.caddy, generator: generator}
	synced := &side{caddy: f.synced.caddy, generator: others}
	if err := loadInTurn(ctx, s, bare, twin, gate, synced); err != nil {
		return nil, err
	}
	if s.profile != "" {
		if err := profile(ctx, s, gate); err != nil {
			return nil, fmt.Errorf("profiling: %w", err)
		}
	}
	rate, processor := func(s *side) samples { return s.rate }, func(s *side) samples { return s.processor }
	return []row{
		compared("gate and proxy against proxy, requests/s", atLeast(0.95), rate, bare, twin, gate),
		compared("  processor time per request", atMost(1.07), processor, bare, twin, gate),
		compared("  p99", atMost(1.05), func(s *side) samples { return s.p99 }, bare, twin, gate),
		compared("  requests/s with sync on", atLeast(0.85), rate, bare, twin, synced),
		added("  memory, resident, 100 keys", atMost(25<<20), func(m memory) int64 { return m.resident }, bare, twin, gate),
		added("  memory, proportional", bar{}, func(m memory) int64 { return m.proportional }, bare, twin, gate),
		added("  memory, anonymous", bar{}, func(m memory) int64 { return m.anonymous }, bare, twin, gate),
		{what: "proxy alone, requests/s", unit: asCount, measured: bare.rate, noise: twin.rate, neutral: bare.rate.median()},
		{what: "  processor time per request", unit: asMicros, measured: bare.processor, noise: twin.processor, neutral: bare.processor.median()},
	}, nil
}

// added is a row of the memory that side has more than against after a
// round.
func added(what string, b bar, of func(memory) int64, against, twin, side *side) row {
	alone := sizes(against, of)
	return row{
		what: what, bar: b, unit: asMiB,
		measured: differences(sizes(side, of), alone), noise: differences(sizes(twin, of), alone),
	}
}

func sizes(s *side, of func(memory) int64) samples {
	list := make(samples, len(s.memory))
	for i, m := range s.memory {
		list[i] = float64(of(m))
	}
	return list
}
