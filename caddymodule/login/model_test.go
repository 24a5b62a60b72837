package login_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

// model is the naive limiter: every admitted attempt, and the rules of the
// package comment.
type model struct {
	limits   login.Limits
	attempts []*entry
	logins   []success
	latest   time.Time     // latest reading of the clock
	skew     time.Duration // added to readings after steps back
}

type entry struct {
	client, account int
	at              time.Time
	own             bool // from a client known at that time
	counts          bool // as failure
	real            login.Attempt
}

type success struct {
	client, account int
	at              time.Time
}

func (m *model) read(now time.Time) (instant, reading time.Time) {
	reading = now.Add(m.skew)
	if m.latest.Sub(reading) > login.Tolerance {
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
		if e.client == client {
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

func (m *model) succeed(client, account int, instant time.Time) {
	for _, e := range m.attempts {
		if e.client == client && e.account == account {
			e.counts = false
		}
	}
	m.logins = append(m.logins, success{client, account, instant})
}

// Local agrees with the model, with clocks that jump, late outcomes and
// restarts.
func TestLocalAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := login.Limits{
			PerClient: rapid.IntRange(1, 8).Draw(t, "per client"),
			Window:    time.Minute,
			Free:      rapid.IntRange(1, 4).Draw(t, "free"),
			FirstWait: 10 * time.Second,
			MaxWait:   rapid.SampledFrom([]time.Duration{10, 35, 80}).Draw(t, "max wait") * time.Second,
			Forget:    10 * time.Minute,
			KnownFor:  30 * time.Minute,
		}
		m := &model{limits: limits}
		disk := newDisk()
		local := login.NewLocal(disk)
		now := start
		ctx := context.Background()
		var inFlight []*entry
		take := func(t *rapid.T) *entry {
			if len(inFlight) == 0 {
				t.Skip("nothing in flight")
			}
			i := rapid.IntRange(0, len(inFlight)-1).Draw(t, "in flight")
			e := inFlight[i]
			inFlight = slices.Delete(inFlight, i, i+1)
			return e
		}
		reserve := func(t *rapid.T) {
			client, account := rapid.IntRange(0, 2).Draw(t, "client"), rapid.IntRange(0, 1).Draw(t, "account")
			instant, reading := m.read(now)
			opens := m.opens(client, account, instant)
			attempt, wait, err := local.Reserve(ctx, now, limits,
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
					now = now.Add(wait)
				}
				return
			}
			e := &entry{
				client: client, account: account, at: instant, counts: true,
				own: m.known(client, account, instant), real: attempt,
			}
			m.attempts = append(m.attempts, e)
			m.forgetOldest(e)
			inFlight = append(inFlight, e)
		}
		t.Repeat(map[string]func(*rapid.T){
			"reserve":  reserve,
			"reserve2": reserve,
			"reserve3": reserve,
			"fail":     func(t *rapid.T) { take(t).real.Failed() },
			"abandon": func(t *rapid.T) {
				e := take(t)
				if err := e.real.Abandoned(ctx); err != nil {
					t.Fatalf("Abandoned: %v", err)
				}
				e.counts = false
			},
			"succeed": func(t *rapid.T) {
				e := take(t)
				instant, _ := m.read(now)
				if err := e.real.Succeeded(ctx, now); err != nil {
					t.Fatalf("Succeeded: %v", err)
				}
				m.succeed(e.client, e.account, instant)
			},
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, int(20*time.Second)).Draw(t, "ns")))
			},
			"pass long": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "seconds")) * time.Second)
			},
			"step back": func(t *rapid.T) {
				now = now.Add(-time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			},
			"restart": func(t *rapid.T) {
				// Another test covers steps of the clock over a restart;
				// here the clock is right again.
				now = now.Add(m.skew)
				if m.latest.After(now) {
					now = m.latest
				}
				m.latest, m.skew = now, 0
				inFlight = nil
				local = login.NewLocal(disk)
				if err := local.Restore(ctx, now); err != nil {
					t.Fatalf("Restore: %v", err)
				}
			},
		})
	})
}

// However often the clock is set back, no real minute has more than five
// attempts, and a client that waits a minute and the tolerance is admitted.
func TestClockSetBackNeitherOpensNorLocks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(nil, login.Limits{})
		client, account := login.ClientOf("192.0.2.1"), login.Account{}
		var elapsed, skew, idle time.Duration
		var admitted []time.Duration
		try := func(t *rapid.T) bool {
			attempt, _, err := b.local.Reserve(
				context.Background(), start.Add(elapsed+skew), b.limits, client, account)
			if err != nil {
				t.Fatalf("Reserve: %v", err)
			}
			if attempt == nil {
				return false
			}
			admitted = append(admitted, elapsed)
			if n := len(admitted); n > 5 && elapsed-admitted[n-6] < time.Minute {
				t.Fatalf("six attempts in %v", elapsed-admitted[n-6])
			}
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"try": func(t *rapid.T) { try(t) },
			"pass": func(t *rapid.T) {
				elapsed += time.Duration(rapid.IntRange(0, int(30*time.Second)).Draw(t, "ns"))
			},
			"set back": func(t *rapid.T) {
				skew -= time.Duration(rapid.IntRange(0, 1e6).Draw(t, "seconds")) * time.Second
			},
			"wait": func(t *rapid.T) {
				try(t)
				idle = time.Minute + login.Tolerance
				elapsed += idle
				if !try(t) {
					t.Fatalf("still refused after %v", idle)
				}
			},
		})
	})
}
