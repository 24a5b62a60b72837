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

// ledger is the naive model: every admitted attempt, and the rules as the
// package comment states them.
type ledger struct {
	limits   login.Limits
	attempts []*entry
	logins   []login
	latest   time.Time     // what the model has seen of the clock
	skew     time.Duration // what was added after steps back
}

type entry struct {
	client, account int
	at              time.Time
	own             bool // made by a client known then
	counts          bool // as failure
	real            *login.Attempt
}

type login struct {
	client, account int
	at              time.Time
}

func (l *ledger) read(now time.Time) (instant, reading time.Time) {
	reading = now.Add(l.skew)
	if l.latest.Sub(reading) > login.Tolerance {
		l.skew += l.latest.Sub(reading)
		reading = l.latest
	}
	if reading.After(l.latest) {
		l.latest = reading
	}
	return l.latest, reading
}

func (l *ledger) known(client, account int, instant time.Time) bool {
	return slices.ContainsFunc(l.logins, func(of login) bool {
		return of.client == client && of.account == account && of.at.Add(l.limits.KnownFor).After(instant)
	})
}

// opens is when the model admits.
func (l *ledger) opens(client, account int, instant time.Time) time.Time {
	var log []time.Time
	own := l.known(client, account, instant)
	count, last := 0, time.Time{}
	for _, e := range l.attempts {
		if e.client == client {
			log = append(log, e.at)
		}
		if e.account == account && e.counts && e.own == own && (!own || e.client == client) {
			if !last.IsZero() && !e.at.Before(last.Add(l.limits.Forget)) {
				count = 0
			}
			count, last = count+1, e.at
		}
	}
	var opens time.Time
	if n := len(log); n >= l.limits.PerClient {
		opens = log[n-l.limits.PerClient].Add(l.limits.Window)
	}
	if !last.IsZero() && !instant.Before(last.Add(l.limits.Forget)) {
		count = 0
	}
	if count >= l.limits.Free {
		wait := l.limits.FirstWait
		for i := l.limits.Free; i < count && wait < l.limits.MaxWait; i++ {
			wait *= 2
		}
		if at := last.Add(min(wait, l.limits.MaxWait)); at.After(opens) {
			opens = at
		}
	}
	return opens
}

// forgetOldest keeps four failures more than the longest wait needs.
func (l *ledger) forgetOldest(of *entry) {
	keep := l.limits.Free + 4
	for wait := l.limits.FirstWait; wait < l.limits.MaxWait; wait *= 2 {
		keep++
	}
	for _, e := range slices.Backward(l.attempts) {
		if e.account == of.account && e.own == of.own && (!of.own || e.client == of.client) && e.counts {
			e.counts = keep > 0
			keep--
		}
	}
}

func (l *ledger) succeed(client, account int, instant time.Time) {
	for _, e := range l.attempts {
		if e.client == client && e.account == account {
			e.counts = false
		}
	}
	l.logins = append(l.logins, login{client, account, instant})
}

// Against a list of all attempts, with clocks that jump about, outcomes
// that come late, and restarts in between.
func TestThrottleAgainstModel(t *testing.T) {
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
		m := &ledger{limits: limits}
		disk := newDisk()
		real := login.New(disk)
		now := start
		ctx := context.Background()
		var pending []*entry
		take := func(t *rapid.T) *entry {
			if len(pending) == 0 {
				t.Skip("nothing pending")
			}
			i := rapid.IntRange(0, len(pending)-1).Draw(t, "pending")
			e := pending[i]
			pending = slices.Delete(pending, i, i+1)
			return e
		}
		reserve := func(t *rapid.T) {
			client, account := rapid.IntRange(0, 2).Draw(t, "client"), rapid.IntRange(0, 1).Draw(t, "account")
			instant, reading := m.read(now)
			opens := m.opens(client, account, instant)
			attempt, wait, err := real.Reserve(ctx, now, limits,
				login.ClientKey(fmt.Sprint("192.0.2.", client)), login.AccountKey(fmt.Sprint(account)))
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
			pending = append(pending, e)
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
				// Steps of the clock across a restart have a test of
				// their own; here it comes back right.
				now = now.Add(m.skew)
				if m.latest.After(now) {
					now = m.latest
				}
				m.latest, m.skew = now, 0
				pending = nil
				real = login.New(disk)
				if err := real.Restore(now, disk.all()); err != nil {
					t.Fatalf("Restore: %v", err)
				}
			},
		})
	})
}

// However often the clock is set back, no true minute sees more than five
// attempts, and who waits a minute and the tolerance is admitted.
func TestClockSetBackNeitherOpensNorLocks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := newBench(nil, login.Limits{})
		client, account := login.ClientKey("192.0.2.1"), login.Account{}
		var elapsed, skew, idle time.Duration
		var admitted []time.Duration
		try := func(t *rapid.T) bool {
			attempt, _, err := b.login.Reserve(
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
