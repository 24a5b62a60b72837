package redisstore_test

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// TestExact makes ten times as many parallel calls through three stores as a
// limit admits. Each kind of limit decides once.
func TestExact(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	most := int64(times(4000))
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day},
		{Endpoint: "convert", Period: store.Month},
		{Endpoint: store.All, Period: store.Day},
		{Endpoint: store.All, Period: store.Month},
		{Endpoint: "convert", Period: store.Day, OfKey: true},
		{Endpoint: store.All, Period: store.Month, OfKey: true},
		{Endpoint: "convert", Period: store.Hour},
		{Endpoint: store.All, Period: store.Hour, OfKey: true},
	}
	for i, decides := range limits {
		name := decides.Endpoint + " " + decides.Period.String()
		if decides.OfKey {
			name = "key " + name
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, redisstore.Options{URL: server.URL(), Prefix: prefix(t)})
			own := append([]store.Limit(nil), limits...)
			for n := range own {
				own[n].Max = 2 * most
			}
			own[i].Max = most
			call := f.call()
			call.Key = "key_" + account
			began := time.Now()
			p := f.start(call, own)
			p.finish(10 * most)
			refilled := int64(0)
			if decides.Period.IsPace() {
				refilled = most * int64(time.Since(began)) / int64(time.Hour)
			}
			if got := p.served(); got < most || got > most+refilled {
				t.Errorf("admitted %d calls, want %d and up to %d of the refill", got, most, refilled)
			}
			if got := p.unknown.Load() + p.failed.Load(); got != 0 {
				t.Errorf("%d calls failed", got)
			}
			if got, want := f.used(0, call), p.served(); got != want {
				t.Errorf("counted %d calls, admitted %d", got, want)
			}
		})
	}
}

// breakage is what a fault of TestExactDespite needs.
type breakage struct {
	*pour
	server *redistest.Server
	proxy  *redistest.Proxy
}

// lose waits until calls have failed since the fault began.
func (b *breakage) lose() {
	b.Helper()
	before := b.unknown.Load() + b.failed.Load()
	await(b, "failed calls", func() bool { return b.unknown.Load()+b.failed.Load() > before })
}

// recover waits until calls are decided again.
func (b *breakage) recover() {
	b.Helper()
	before := b.served() + b.refused.Load()
	await(b, "calls that are decided", func() bool { return b.served()+b.refused.Load() > before })
}

// faults break a server or the way to it, under load. The last number of each
// is how many calls it may lose, in calls in flight of all stores.
var faults = []struct {
	name  string
	begin func(*breakage)
	lost  int64
}{
	{"OneStoreCloses", func(b *breakage) { check(b, b.gates[2].Close()) }, 1},
	{"ServerStops", func(b *breakage) {
		check(b, b.server.Pause())
		b.lose()
		check(b, b.server.Resume())
	}, 1},
	{"ServerIsKilled", func(b *breakage) {
		check(b, b.server.Kill())
		b.lose()
		check(b, b.server.Restart())
	}, 1},
	{"ScriptsAreFlushed", func(b *breakage) {
		for range 20 {
			do(b, b.server, "SCRIPT", "FLUSH")
			b.recover()
		}
	}, 0},
	{"NetworkStalls", func(b *breakage) {
		b.proxy.Stall()
		b.lose()
		check(b, b.proxy.Resume())
	}, 1},
	{"NetworkStallsAndEnds", func(b *breakage) {
		b.proxy.Stall()
		b.lose()
		b.proxy.Cut()
		check(b, b.proxy.Resume())
	}, 1},
	// Calls that begin while the first ones wait are lost as well.
	{"RepliesAreLost", func(b *breakage) {
		b.proxy.EatReplies()
		b.lose()
		check(b, b.proxy.Resume())
	}, 2},
	{"ConnectionsAreCut", func(b *breakage) {
		b.proxy.Cut()
		b.recover()
	}, 1},
	{"RepliesAreCut", func(b *breakage) {
		const cuts = 5
		b.proxy.CutReplies(3)
		for range cuts {
			b.lose()
		}
		check(b, b.proxy.Resume())
	}, 1000}, // each cut loses calls
}

// pourDespite breaks the server or the network while three stores make ten times as
// many calls as a limit of the day admits, and returns what became of them.
func pourDespite(t *testing.T, fault int, most, mostOfCall int64) *pour {
	server := redistest.Start(t, "appendonly yes", "appendfsync always")
	proxy := redistest.StartProxy(t, server.Addr())
	// On a busy machine a reply can take more than half a second.
	o := redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 2 * time.Second}
	if faults[fault].lost == 0 { // a slow machine must not lose calls either
		o.Timeout = 10 * time.Second
	}
	f := newFleet(t, o)
	p := (&pour{fleet: f, call: f.call(), most: mostOfCall, limits: []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: most},
		{Endpoint: "convert", Period: store.Month, Max: 2 * most},
		{Endpoint: store.All, Period: store.Day, Max: 2 * most},
		{Endpoint: "convert", Period: store.Hour, Max: 100 * most},
	}}).start()
	await(p, "calls", func() bool { return p.served() > most/10 })
	began := p.served()
	faults[fault].begin(&breakage{p, server, proxy})
	p.finish(10 * most)
	t.Logf("%d of %d calls served, of them %d before the fault; %d without a reply, %d not counted", p.served(), most, began, p.unknown.Load(), p.failed.Load())
	return p
}

// TestExactDespite: despite faults, the limit is never exceeded, and is reached.
// Calls that are counted and not served are at most those in flight.
func TestExactDespite(t *testing.T) {
	t.Parallel()
	for i, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			most := int64(times(10_000))
			p := pourDespite(t, i, most, 0)
			counted, served := p.used(0, p.call), p.served()
			if served > most || counted != most {
				t.Errorf("served %d calls and counted %d, want %d", served, counted, most)
			}
			if lost := counted - served; lost < 0 || lost > p.unknown.Load() || lost > fault.lost*3*callers {
				t.Errorf("%d calls were counted and not served, of %d without a reply and %d in flight", lost, p.unknown.Load(), 3*callers)
			}
		})
	}
}

// TestSettledDespite: despite faults, nothing is spent above the limit, and the
// counters have the costs of calls that are settled, and what the others took.
func TestSettledDespite(t *testing.T) {
	t.Parallel()
	for i, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			most := int64(times(4000))
			p := pourDespite(t, i, most, 5)
			counted, spent, held, maybe := p.used(0, p.call), p.spent.Load(), p.held.Load(), p.maybe.Load()
			t.Logf("counted %d: spent %d, not settled %d, and at most %d without a reply", counted, spent, held, maybe)
			if counted > most || counted < spent+held || counted > spent+held+maybe {
				t.Errorf("counted %d with a limit of %d, spent %d, not settled %d, and at most %d without a reply", counted, most, spent, held, maybe)
			}
			if fault.lost == 0 && held+maybe > 0 {
				t.Errorf("%d were not settled, and %d without a reply", held, maybe)
			}
		})
	}
}
