package storetest

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

func (s *suite) limit() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	s.take(call, 0, 0, false)
	for used := range int64(3) {
		s.take(call, 3, used+1, true)
	}
	s.take(call, 3, 3, false)
	s.take(call, 3, 3, false)
	s.take(call, 1, 3, false) // a downgrade
	s.take(call, 5, 4, true)  // an upgrade
	s.take(call, store.Unlimited, 5, true)
	s.take(call, 0, 5, false)
	s.wantUsed(call, 5)
}

// together runs fn in n goroutines that start at the same time, and fails
// the test with the first error.
func (s *suite) together(n int, fn func(i int) error) {
	s.Helper()
	var ready atomic.Int64
	failed := make(chan error, n)
	var running sync.WaitGroup
	for i := range n {
		running.Go(func() {
			for ready.Add(1); ready.Load() < int64(n); {
				runtime.Gosched()
			}
			if err := fn(i); err != nil {
				failed <- err
			}
		})
	}
	running.Wait()
	select {
	case err := <-failed:
		s.Fatalf("%v", err)
	default:
	}
}
