package redisstore_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// callers is how many calls each store of a fleet has in flight.
const callers = 16

// pour is the parallel calls of a fleet, and what became of them.
type pour struct {
	*fleet
	call    store.Call
	limits  []store.Limit
	stopped atomic.Bool
	running sync.WaitGroup

	// admitted by each store.
	admitted [3]atomic.Int64
	refused  atomic.Int64
	// unknown calls may be counted. They are not served.
	unknown atomic.Int64
	// failed calls are not counted.
	failed atomic.Int64

	// most is what a call takes at most if calls are settled, otherwise 0.
	most int64
	// spent is the cost of calls that are settled.
	spent atomic.Int64
	// held is what calls took that could not be settled.
	held atomic.Int64
	// maybe is what may be counted more.
	maybe atomic.Int64
}

// start begins to call through all stores.
func (f *fleet) start(call store.Call, limits []store.Limit) *pour {
	return (&pour{fleet: f, call: call, limits: limits}).start()
}

func (p *pour) start() *pour {
	for gate := range p.gates {
		for range callers {
			p.running.Go(func() {
				for !p.stopped.Load() && p.one(gate) {
				}
			})
		}
	}
	return p
}

// one makes a call. It returns false if the store is closed or does something
// that it must not do.
func (p *pour) one(gate int) bool {
	call := p.call
	if p.most > 0 {
		call.Cost = 1 + rand.Int64N(p.most)
	}
	admitted, _, err := decide(p.Context(), p.gates[gate], p.hash, call, p.limits)
	switch {
	case errors.Is(err, store.ErrClosed):
		return false
	case errors.Is(err, store.ErrUnavailable):
		if errors.Is(err, store.ErrUnknown) {
			p.unknown.Add(1)
			p.maybe.Add(call.Cost)
		} else {
			p.failed.Add(1)
		}
		time.Sleep(time.Millisecond) // a server that is away fails calls at once
	case err != nil:
		p.Errorf("a call through store %d: %v", gate, err)
		return false
	case admitted:
		p.admitted[gate].Add(1)
		if p.most > 0 {
			p.settle(gate, call)
		}
	default:
		p.refused.Add(1)
	}
	return true
}

// settle settles a call with at most what it took.
func (p *pour) settle(gate int, call store.Call) {
	cost := rand.Int64N(call.Cost + 1)
	switch err := p.gates[gate].Settle(p.Context(), call, nil, nil, cost, false); {
	case err == nil:
		p.spent.Add(cost)
	case errors.Is(err, store.ErrUnknown):
		p.spent.Add(cost)
		p.maybe.Add(call.Cost - cost)
	case errors.Is(err, store.ErrUnavailable):
		p.held.Add(call.Cost)
	default:
		p.Errorf("settling a call through store %d: %v", gate, err)
	}
}

// served returns how many calls were admitted.
func (p *pour) served() (sum int64) {
	for i := range p.admitted {
		sum += p.admitted[i].Load()
	}
	return sum
}

// finish waits until so many calls were decided, and ends all callers.
func (p *pour) finish(calls int64) {
	p.Helper()
	await(p, "the calls", func() bool { return p.served()+p.refused.Load() >= calls })
	p.stop()
}

func (p *pour) stop() {
	p.stopped.Store(true)
	p.running.Wait()
}
