package redisstore_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// TestLateCalls: calls that reach the server after the end of their timeout
// are not counted. Their clients have an error already.
func TestLateCalls(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name       string
		begin, end func(*redistest.Server, *redistest.Proxy) error
	}{
		{"ServerStops", func(s *redistest.Server, _ *redistest.Proxy) error { return s.Pause() }, func(s *redistest.Server, _ *redistest.Proxy) error { return s.Resume() }},
		{"NetworkStalls", func(_ *redistest.Server, p *redistest.Proxy) error { p.Stall(); return nil }, func(_ *redistest.Server, p *redistest.Proxy) error { return p.Resume() }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.StartProxy(t, server.Addr())
			f := newFleet(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 3 * time.Second})
			for gate := range f.gates {
				f.take(gate, f.call(), daily(1<<40))
			}
			check(t, fault.begin(server, proxy))
			var calls sync.WaitGroup
			for i := range 3 * callers {
				calls.Go(func() {
					_, err := f.gates[i%3].Take(t.Context(), f.call(), daily(1<<40), make([]store.Room, 1))
					if !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("a call: got %v, want %v", err, store.ErrUnavailable)
					}
				})
			}
			calls.Wait()
			check(t, fault.end(server, proxy))
			for gate := range f.gates {
				if got := f.used(gate, f.call()); got != 3 {
					t.Errorf("store %d: counted %d calls, want the 3 before the fault", gate, got)
				}
			}
		})
	}
}

// TestServerRefusesWrites: a server that refuses writes counts nothing, and
// says so.
func TestServerRefusesWrites(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code, setting, refuse, allow string
	}{
		{"NOREPLICAS", "min-replicas-to-write", "1", "0"},
		{"OOM", "maxmemory", "1", "0"},
	} {
		t.Run(test.code, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			f := newFleet(t, redisstore.Options{URL: server.URL()})
			f.take(0, f.call(), daily(9))
			do(t, server, "CONFIG", "SET", test.setting, test.refuse)
			for gate, s := range f.gates {
				admitted, _, err := decide(t.Context(), s, f.hash, f.call(), daily(9))
				if admitted || !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), test.code) {
					t.Errorf("store %d: got %v, %v, want %s", gate, admitted, err, test.code)
				}
				err = s.Settle(t.Context(), f.call(), nil, nil, int64(3*gate), false)
				if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), test.code) {
					t.Errorf("store %d settles: got %v, want %s", gate, err, test.code)
				}
				if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("store %d: Check: got %v, want %v", gate, err, store.ErrUnavailable)
				}
			}
			do(t, server, "CONFIG", "SET", test.setting, test.allow)
			if got := f.used(1, f.call()); got != 1 {
				t.Errorf("counted %d calls, want 1", got)
			}
			f.take(2, f.call(), daily(2))
		})
	}
}
