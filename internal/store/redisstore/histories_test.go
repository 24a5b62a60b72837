package redisstore_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// The operations of a counter.
const (
	take = iota
	settle
	read
)

// operation is what a client asks a counter for. A settlement changes a call from
// its cost to another one.
type operation struct {
	kind     int
	account  string
	cost, to int64
}

// outcome is what a client got. used is the count after a take that was
// admitted and before one that was refused, or the limit if that is less.
type outcome struct {
	unknown  bool // no reply, so that the operation may have happened
	admitted bool
	used     int64
}

// counter is a counter that admits most calls. Its state is the count.
func counter(most int64) porcupine.Model {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{int64(0)} },
		Step: func(state, input, output any) []any {
			return next(state.(int64), most, input.(operation), output.(outcome))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v %+v", input, output) },
		// The history of each account is one of its own.
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := map[string][]porcupine.Operation{}
			for _, o := range history {
				id := o.Input.(operation).account
				parts[id] = append(parts[id], o)
			}
			var all [][]porcupine.Operation
			for _, part := range parts {
				all = append(all, part)
			}
			return all
		},
	}
	return model.ToModel()
}

// next returns the counts after an operation with this outcome, none if it is
// impossible.
func next(used, most int64, o operation, got outcome) []any {
	after, fits := used, used+o.cost <= most
	switch {
	case o.kind == take && fits:
		after = used + o.cost
	case o.kind == settle:
		after = used + o.to - o.cost // each call is settled once, so it is not below zero
	}
	switch {
	case got.unknown:
		return []any{used, after}
	case o.kind == settle:
		return []any{after}
	case o.kind == take && got.admitted != fits, got.used != min(after, most):
		return nil
	}
	return []any{after}
}

// recorder writes down what clients do.
type recorder struct {
	*fleet
	most  int64
	began time.Time

	mu      sync.Mutex
	history []porcupine.Operation
	unknown int
}

// do runs an operation. It returns false if the operation has not happened.
func (r *recorder) do(client int, o operation) (got outcome, happened bool) {
	gate := r.gates[client%len(r.gates)]
	call := store.Call{Account: o.account, Endpoint: "convert", Day: r.day, Cost: o.cost}
	rooms, limits := make([]store.Room, 1), daily(r.most)
	called := time.Since(r.began)
	var err error
	switch o.kind {
	case take:
		got.admitted, err = gate.Take(r.Context(), call, limits, rooms)
	case settle:
		err = gate.Settle(r.Context(), call, nil, nil, o.to, false)
	case read:
		err = gate.Rooms(r.Context(), call, limits, rooms)
	}
	returned := time.Since(r.began).Nanoseconds()
	got.used = r.most - rooms[0].Remaining
	if err != nil {
		if !errors.Is(err, store.ErrUnavailable) {
			r.Errorf("%+v: %v", o, err)
		}
		// Only store.ErrUnknown says that it may have happened. A read that
		// failed says nothing.
		if o.kind == read || !errors.Is(err, store.ErrUnknown) {
			return got, false
		}
		got, returned = outcome{unknown: true}, math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: client, Input: o, Call: called.Nanoseconds(), Output: got, Return: returned})
	if got.unknown {
		r.unknown++
	}
	return got, true
}

// lose begins a fault and waits until the reply of an operation is lost. It can
// be lost before fault returns.
func (r *recorder) lose(fault func()) {
	r.Helper()
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.unknown
	}
	before := count()
	fault()
	await(r, "a lost reply", func() bool { return count() > before })
}

// client runs random operations until it has done enough. It settles only calls
// that were admitted, each of them once.
func (r *recorder) client(client, operations int, accounts []string, progress *atomic.Int64) {
	mine := map[string][]int64{} // the costs of admitted calls
	for n := 0; n < operations; {
		o := operation{account: accounts[rand.IntN(len(accounts))], cost: 1 + rand.Int64N(3)}
		held := mine[o.account]
		switch dice := rand.IntN(10); {
		case dice < 2:
			o.kind = read
		case dice < 6 && len(held) > 0:
			o.kind, o.cost = settle, held[0]
			o.to = max(0, rand.Int64N(7)-3) // often 0, so that there is room again
		}
		got, happened := r.do(client, o)
		if !happened {
			time.Sleep(time.Millisecond)
			continue
		}
		switch {
		case o.kind == settle:
			mine[o.account] = held[1:]
		case got.admitted:
			mine[o.account] = append(held, o.cost)
		}
		n++
		progress.Add(1)
	}
}

// TestHistories records what clients of three stores see while the server or
// the network fails, and checks that each account has one counter, as if all
// clients used it one after another.
func TestHistories(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name string
		run  func(*recorder, *redistest.Server, *redistest.Proxy)
	}{
		{"ServerIsKilled", func(r *recorder, s *redistest.Server, _ *redistest.Proxy) {
			check(r, s.Kill())
			check(r, s.Restart())
		}},
		{"RepliesAreLost", func(r *recorder, _ *redistest.Server, p *redistest.Proxy) {
			r.lose(func() { p.CutReplies(1) })
			check(r, p.Resume())
		}},
		{"NetworkStalls", func(r *recorder, _ *redistest.Server, p *redistest.Proxy) {
			r.lose(p.Stall)
			check(r, p.Resume())
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "appendonly yes", "appendfsync always")
			proxy := redistest.StartProxy(t, server.Addr())
			f := newFleet(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 500 * time.Millisecond})
			r := &recorder{fleet: f, most: 9, began: time.Now()}
			var accounts []string
			for i := range times(400) {
				accounts = append(accounts, fmt.Sprintf("acc_h%d", i))
				newAccount(t, f.admin, accounts[i])
			}
			const clients = 9
			operations := times(10_000)
			var progress atomic.Int64
			var running sync.WaitGroup
			for client := range clients {
				running.Go(func() { r.client(client, operations, accounts, &progress) })
			}
			for part := range 3 {
				await(t, "operations", func() bool { return progress.Load() > int64(clients*operations*(part+1)/5) })
				fault.run(r, server, proxy)
			}
			running.Wait()
			if got := porcupine.CheckOperationsTimeout(counter(r.most), r.history, time.Minute); got != porcupine.Ok {
				t.Errorf("the history is not that of one counter for each account: %s", got)
			}
		})
	}
}
