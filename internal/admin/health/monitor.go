// Package health tells whether a gate can admit calls now.
//
// A Readiness is the answer to a load balancer. A Monitor makes it from a
// check of the store. It checks on demand only, at most twice a second, and
// waits at most Timeout for a store that hangs.
package health

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// Timeout is how long a Monitor waits for the store.
	Timeout = time.Second

	// fresh is how long the result of a check is used. A change is noticed
	// within fresh + Timeout, 1.5 s.
	fresh = 500 * time.Millisecond
)

// Monitor checks one open store. It is safe for concurrent use.
type Monitor struct {
	check  func(context.Context) error
	logger *zap.Logger

	mu     sync.Mutex
	last   *run
	status api.Status
	since  time.Time
}

// New returns a monitor of a store that was just opened. check is the
// store's Check.
func New(check func(context.Context) error, logger *zap.Logger) *Monitor {
	return &Monitor{check: check, logger: logger, status: api.Ready, since: time.Now()}
}

// Readiness tells whether the store works. It returns within Timeout.
func (m *Monitor) Readiness() api.Readiness {
	err := m.current().wait()
	r := Report(err, time.Time{})
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Status != m.status {
		m.status, m.since = r.Status, time.Now()
		if err != nil {
			m.logger.Error("gate is not ready", zap.Error(err))
		} else {
			m.logger.Info("gate is ready again")
		}
	}
	return r.As(m.status, m.since)
}

// current returns the check to use, and starts one if the last one is old. A
// check starts only after the last one has ended, so a store that hangs
// blocks one goroutine, not one per caller.
func (m *Monitor) current() *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.last; r != nil && (!r.ended() || time.Since(r.began) < fresh) {
		return r
	}
	r := &run{began: time.Now(), done: make(chan struct{})}
	m.last = r
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), Timeout)
		defer cancel()
		r.err = m.check(ctx)
		close(r.done)
	}()
	return r
}

// run is one check of the store, which may be in progress.
type run struct {
	began time.Time
	done  chan struct{}
	err   error // read after done
}

func (r *run) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// wait returns the error of the check, or errSlow after Timeout.
func (r *run) wait() error {
	select {
	case <-r.done:
	case <-time.After(time.Until(r.began.Add(Timeout))):
		if !r.ended() {
			return errSlow
		}
	}
	return r.err
}

// errSlow is the error of a check that takes longer than Timeout.
var errSlow = errors.New("the store does not answer in time")

// Report returns a Readiness for the error of a check. The error itself is only
// the Cause, which is not for everybody.
func Report(err error, since time.Time) api.Readiness {
	status, check := api.Unavailable, api.Check{Name: "store", OK: err == nil}
	switch {
	case err == nil:
		status, check.Message = api.Ready, "The store works."
	case errors.Is(err, store.ErrOpening):
		status, check.Message = api.Starting, "The store is being opened."
	case errors.Is(err, errSlow):
		check.Message = "The store does not answer in time."
	default:
		check.Message, check.Cause = "The store cannot admit calls.", err.Error()
	}
	return api.Readiness{Mode: api.ModeEnforce, Checks: []api.Check{check}}.As(status, since)
}
