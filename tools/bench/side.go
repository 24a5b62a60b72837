package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/procfs"
)

// side is a server that is compared with others, under one kind of load.
type side struct {
	*server
	tokens  []string // of the calls, in turn
	refused bool     // the expected answers: all are refusals, or none is
	inGo    bool     // a client in Go makes the calls, not wrk
	takes   bool     // wrk takes the calls on the control listener
	ids     bool     // it does, each with an id
	also    []int    // further processes that work for the server
	rounds  []measured
}

// with is a side that gets calls with these tokens.
func (s *server) with(tokens []string) *side { return &side{server: s, tokens: tokens} }

// measured is the result of one round on one side.
type measured struct {
	rate     float64 // requests per second
	p99      float64 // nanoseconds
	cpu      float64 // nanoseconds of processor time of the server per request
	also     float64 // the same of the further processes
	resident float64 // bytes of memory of the server, with the files that it has mapped
	hash     float64 // H near the round
}

// Figures of a round.
func rate(m measured) float64     { return m.rate }
func p99(m measured) float64      { return m.p99 }
func cpu(m measured) float64      { return m.cpu + m.also }
func alsoCPU(m measured) float64  { return m.also }
func resident(m measured) float64 { return m.resident }
func hash(m measured) float64     { return m.hash }

// used is the processor time, in seconds, that the processes of a side have used
// since they started, in their own code and in the kernel, and its memory.
func (s *side) used() (m measured, err error) {
	for _, pid := range append([]int{s.pid()}, s.also...) {
		process, err := procfs.NewProc(pid)
		if err != nil {
			return m, err
		}
		stat, err := process.Stat()
		if err != nil {
			return m, err
		}
		if pid == s.pid() {
			m.cpu, m.resident = stat.CPUTime(), float64(stat.ResidentMemory())
		} else {
			m.also += stat.CPUTime()
		}
	}
	return m, nil
}

// load loads a side for one round.
func (s *side) load(ctx context.Context, duration time.Duration) error {
	before, err := s.used()
	if err != nil {
		return err
	}
	l, err := s.calls(ctx, duration)
	if err != nil {
		return errors.Join(err, errors.New(s.messages()))
	}
	m, err := s.used()
	if err != nil {
		return err
	}
	each := func(seconds float64) float64 { return 1e9 * seconds / float64(l.Requests) }
	m.cpu, m.also = each(m.cpu-before.cpu), each(m.also-before.also)
	m.rate, m.p99, m.hash = l.rate(), 1e3*float64(l.P99), hashTime()
	s.rounds = append(s.rounds, m)
	return nil
}

// loadInTurn warms up all sides and then loads them in turn. Each round
// starts with another side, so that the order of the sides has no effect. A
// round in which the equal sides differ too much is repeated, at most a third
// of the rounds.
func loadInTurn(ctx context.Context, b *bench, equal baseline, others ...*side) error {
	sides := append([]*side{equal.first, equal.second}, others...)
	for _, side := range sides {
		if _, err := side.calls(ctx, time.Second); err != nil {
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

// baseline is a server twice: the second shows the noise.
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
		what: what, target: t, unit: asRatio, ratio: true,
		measured: ratios(valuesOf(s.rounds, figure), valuesOf(other.rounds, figure)),
		noise:    ratios(valuesOf(b.second.rounds, figure), valuesOf(b.first.rounds, figure)),
	}
}

// added is a row of the memory that a side uses more than the baseline.
func (b baseline) added(what string, t target, s *side) row {
	first := valuesOf(b.first.rounds, resident)
	return row{
		what: what, target: t, unit: asMiB,
		measured: differences(valuesOf(s.rounds, resident), first),
		noise:    differences(valuesOf(b.second.rounds, resident), first),
	}
}

// perSecond is a row of the requests of a side.
func (s *side) perSecond(what string) row {
	return row{what: what + ", requests/s", unit: asCount, measured: valuesOf(s.rounds, rate)}
}
