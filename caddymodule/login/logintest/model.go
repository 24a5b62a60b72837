package logintest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

var start = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// Setup is what CheckModel checks.
type Setup struct {
	// Next returns the limiter of the next attempt.
	Next func() login.Limiter
	// SetClock sets the clock of a remote memory. Nil if there is none.
	SetClock func(now time.Time)
	// Restart loads the limiter again, so that attempts in flight count as
	// failed. Nil for no restarts.
	Restart func(now time.Time) error
	// Tolerance is how far the clock may lie behind. Zero for no steps back.
	Tolerance time.Duration
}

// model is the naive limiter: every admitted attempt, and the rules of the
// package comment.
type model struct {
	limits   login.Limits
	attempts []*entry
	logins   []success
	latest   time.Time     // latest reading of the clock
	skew     time.Duration // added to readings after steps back

	tolerance time.Duration // of steps back
}

type entry struct {
	client, account int
	at              time.Time
	own             bool // from a client known at that time
	counts          bool // as failure
	moved           bool // to the log of successes
	strict          bool // does not move
	real            login.Attempt
}

type success struct {
	client, account int
	at              time.Time
}

func (m *model) read(now time.Time) (instant, reading time.Time) {
	reading = now.Add(m.skew)
	if m.latest.Sub(reading) > m.tolerance {
		m.skew += m.latest.Sub(reading)
		reading = m.latest
	}
	if reading.After(m.latest) {
		m.latest = reading
	}
	return m.latest, reading
}

func (m *model) known(client, account int, instant time.Time) bool {
	return slices.ContainsFunc(m.logins, func(of success) bool {
		return of.client == client && of.account == account && of.at.Add(m.limits.KnownFor).After(instant)
	})
}

// opens is when the model admits.
func (m *model) opens(client, account int, instant time.Time) time.Time {
	var log []time.Time
	own := m.known(client, account, instant)
	count, last := 0, time.Time{}
	for _, e := range m.attempts {
		if e.client == client && !e.moved {
			log = append(log, e.at)
		}
		if e.account == account && e.counts && e.own == own && (!own || e.client == client) {
			if !last.IsZero() && !e.at.Before(last.Add(m.limits.Forget)) {
				count = 0
			}
			count, last = count+1, e.at
		}
	}
	var opens time.Time
	if n := len(log); n >= m.limits.PerClient {
		opens = log[n-m.limits.PerClient].Add(m.limits.Window)
	}
	if !last.IsZero() && !instant.Before(last.Add(m.limits.Forget)) {
		count = 0
	}
	if count >= m.limits.Free {
		wait := m.limits.FirstWait
		for i := m.limits.Free; i < count && wait < m.limits.MaxWait; i++ {
			wait *= 2
		}
		if at := last.Add(min(wait, m.limits.MaxWait)); at.After(opens) {
			opens = at
		}
	}
	return opens
}

// forgetOldest keeps four failures more than the longest wait needs.
func (m *model) forgetOldest(of *entry) {
	keep := m.limits.Free + 4
	for wait := m.limits.FirstWait; wait < m.limits.MaxWait; wait *= 2 {
		keep++
	}
	for _, e := range slices.Backward(m.attempts) {
		if e.account == of.account && e.own == of.own && (!of.own || e.client == of.client) && e.counts {
			e.counts = keep > 0
			keep--
		}
	}
}

// abandon deletes a failure. A success may have cleared that of the attempt,
// but not one of the same client at the same instant: these are alike.
func (m *model) abandon(of *entry) {
	for _, e := range m.attempts {
		if e.client == of.client && e.account == of.account && e.own == of.own && e.at.Equal(of.at) && e.counts {
			e.counts = false
			return
		}
	}
}

func (m *model) succeed(of *entry, instant time.Time) {
	moved := 0
	for _, e := range m.attempts {
		if e.client == of.client && e.account == of.account {
			e.counts = false
		}
		if e.client == of.client && e.moved && e.at.Add(m.limits.Window).After(instant) {
			moved++
		}
	}
	if of.at.Add(m.limits.Window).After(instant) && moved < 4*m.limits.PerClient {
		of.moved = !of.strict
	}
	m.logins = append(m.logins, success{of.client, of.account, instant})
}

// CheckModel checks that limiters agree with a naive model, with late
// outcomes, clocks that jump and restarts. setup returns limiters without
// attempts.
func CheckModel(t *testing.T, setup func(t *rapid.T) Setup) {
	rapid.Check(t, func(t *rapid.T) {
		limits := login.Limits{
			PerClient: rapid.SampledFrom([]int{1, 1, 2, 3, 5, 8}).Draw(t, "per client"),
			Window:    time.Minute,
			Free:      rapid.IntRange(1, 4).Draw(t, "free"),
			FirstWait: 10 * time.Second,
			MaxWait:   rapid.SampledFrom([]time.Duration{10, 35, 80}).Draw(t, "max wait") * time.Second,
			Forget:    10 * time.Minute,
			KnownFor:  30 * time.Minute,
		}
		s := &session{Setup: setup(t), limits: limits, now: start}
		s.model = &model{limits: limits, tolerance: s.Tolerance}
		actions := map[string]func(*rapid.T){
			"reserve": s.reserve, "reserve2": s.reserve, "reserve3": s.reserve,
			"fail":    func(t *rapid.T) { s.take(t).real.Failed() },
			"abandon": s.abandon,
			"succeed": s.succeed,
			"pass": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, int(20*time.Second)).Draw(t, "ns")))
			},
			"pass long": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "seconds")) * time.Second)
			},
		}
		if s.Tolerance > 0 {
			actions["step back"] = func(t *rapid.T) {
				s.now = s.now.Add(-time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			}
		}
		if s.Restart != nil {
			actions["restart"] = s.restart
		}
		t.Repeat(actions)
	})
}

// session is one run of limiters beside the model.
type session struct {
	Setup
	model    *model
	limits   login.Limits
	now      time.Time
	inFlight []*entry
}

// clock passes the time to the limiters.
func (s *session) clock() {
	if s.SetClock != nil {
		s.SetClock(s.now)
	}
}

func (s *session) take(t *rapid.T) *entry {
	if len(s.inFlight) == 0 {
		t.Skip("nothing in flight")
	}
	s.clock()
	i := rapid.IntRange(0, len(s.inFlight)-1).Draw(t, "in flight")
	e := s.inFlight[i]
	s.inFlight = slices.Delete(s.inFlight, i, i+1)
	return e
}

func (s *session) reserve(t *rapid.T) {
	s.clock()
	client, account := rapid.IntRange(0, 2).Draw(t, "client"), rapid.IntRange(0, 1).Draw(t, "account")
	instant, reading := s.model.read(s.now)
	opens := s.model.opens(client, account, instant)
	limits := s.limits
	limits.Strict = rapid.Bool().Draw(t, "strict")
	attempt, wait, err := s.Next().Reserve(context.Background(), s.now, limits,
		login.ClientOf(fmt.Sprint("192.0.2.", client)), login.AccountOf(fmt.Sprint(account)))
	if err != nil {
		t.Fatalf("Reserve: %v", err)
	}
	if got, want := attempt != nil, !opens.After(instant); got != want {
		t.Fatalf("got admitted %v, want %v (opens in %v, wait %v)", got, want, opens.Sub(reading), wait)
	}
	if attempt == nil {
		if want := opens.Sub(reading); wait != want {
			t.Fatalf("got wait %v, want %v", wait, want)
		}
		if rapid.Bool().Draw(t, "wait just that long") {
			s.now = s.now.Add(wait)
		}
		return
	}
	e := &entry{
		client: client, account: account, at: instant, counts: true,
		own: s.model.known(client, account, instant), strict: limits.Strict, real: attempt,
	}
	s.model.attempts = append(s.model.attempts, e)
	s.model.forgetOldest(e)
	s.inFlight = append(s.inFlight, e)
}

func (s *session) abandon(t *rapid.T) {
	e := s.take(t)
	if err := e.real.Abandoned(context.Background()); err != nil {
		t.Fatalf("Abandoned: %v", err)
	}
	s.model.abandon(e)
}

func (s *session) succeed(t *rapid.T) {
	e := s.take(t)
	instant, _ := s.model.read(s.now)
	if err := e.real.Succeeded(context.Background(), s.now); err != nil {
		t.Fatalf("Succeeded: %v", err)
	}
	s.model.succeed(e, instant)
}

// restart sets the clock right. Another test covers steps of the clock over
// a restart.
func (s *session) restart(t *rapid.T) {
	s.now = s.now.Add(s.model.skew)
	if s.model.latest.After(s.now) {
		s.now = s.model.latest
	}
	s.model.latest, s.model.skew = s.now, 0
	s.inFlight = nil
	if err := s.Restart(s.now); err != nil {
		t.Fatalf("Restore: %v", err)
	}
}
