package storetest

import (
	"runtime"
	"sync"
	"sync/atomic"
)

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
