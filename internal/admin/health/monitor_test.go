package health_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/health"
)

// fakeStore is a store's check that a test breaks and hangs.
type fakeStore struct {
	err    atomic.Pointer[error]
	hang   atomic.Pointer[chan struct{}]
	checks atomic.Int64
	under  atomic.Int64 // checks under way
	most   atomic.Int64 // of them at once
}

func (s *fakeStore) check(context.Context) error {
	s.checks.Add(1)
	s.most.Store(max(s.most.Load(), s.under.Add(1)))
	defer s.under.Add(-1)
	if hang := s.hang.Load(); hang != nil {
		<-*hang
	}
	if err := s.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *fakeStore) fail(err error) { s.err.Store(&err) }
func (s *fakeStore) mend()          { s.err.Store(nil) }

// watch runs a test in a bubble, with a monitor of a store.
func watch(t *testing.T, test func(t *testing.T, s *fakeStore, m *health.Monitor, log *observer.ObservedLogs)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.InfoLevel)
		s := &fakeStore{}
		test(t, s, health.New(s.check, zap.New(core)), log)
	})
}

// TestReadyTurns follows the store within two seconds, tells since when,
// and logs each change once.
func TestReadyTurns(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, s *fakeStore, m *health.Monitor, log *observer.ObservedLogs) {
		opened := time.Now().UTC()
		expect := func(status api.Status, message string, since time.Time) {
			t.Helper()
			got := m.Readiness()
			want := api.Check{Name: "store", OK: status == api.Ready, Message: message}
			if status == api.Unavailable {
				want.Cause = "no space left on /srv/gate"
			}
			if got.Status != status || got.Mode != "enforce" || !got.Since.Equal(since) || len(got.Checks) != 1 || got.Checks[0] != want {
				t.Errorf("got %+v, want %s since %s, %q", got, status, since, message)
			}
		}
		expect(api.Ready, "The store works.", opened)
		time.Sleep(time.Hour)
		expect(api.Ready, "The store works.", opened)

		s.fail(errors.New("no space left on /srv/gate"))
		time.Sleep(time.Second)
		broken := time.Now().UTC()
		for range 3 {
			expect(api.Unavailable, "The store cannot admit calls.", broken)
			time.Sleep(time.Second)
		}
		s.mend()
		time.Sleep(time.Second)
		expect(api.Ready, "The store works.", time.Now().UTC())

		var said []string
		for _, entry := range log.All() {
			said = append(said, entry.Message)
		}
		if len(said) != 2 || said[0] != "gate is not ready" || said[1] != "gate is ready again" {
			t.Errorf("logged %q", said)
		}
		if got := log.All()[0].ContextMap()["error"]; got != "no space left on /srv/gate" {
			t.Errorf("the cause is not logged: %v", got)
		}
	})
}

// TestPollingIsCheap asks the store twice a second, whoever asks.
func TestPollingIsCheap(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, s *fakeStore, m *health.Monitor, _ *observer.ObservedLogs) {
		for range 1000 {
			if got := m.Readiness(); got.Status != api.Ready {
				t.Fatalf("got %+v", got)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := s.checks.Load(); got < 10 || got > 20 {
			t.Errorf("asked the store %d times in 10 s, want 10 to 20", got)
		}
	})
}

// TestHungStore is unavailable within two seconds. It holds up one check,
// however many ask, and is ready again when it works.
func TestHungStore(t *testing.T) {
	t.Parallel()
	watch(t, func(t *testing.T, s *fakeStore, m *health.Monitor, _ *observer.ObservedLogs) {
		hang := make(chan struct{})
		s.hang.Store(&hang)
		for range 5 {
			asked := time.Now()
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					if got := m.Readiness(); got.Status != api.Unavailable || got.Checks[0].Message != "The store does not answer in time." {
						t.Errorf("got %+v", got)
					}
				})
			}
			group.Wait()
			if waited := time.Since(asked); waited > health.Timeout {
				t.Errorf("waited %s", waited)
			}
			time.Sleep(time.Second)
		}
		if s.most.Load() != 1 || s.checks.Load() != 1 {
			t.Errorf("made %d checks, %d at once, want one", s.checks.Load(), s.most.Load())
		}
		s.hang.Store(nil)
		close(hang)
		time.Sleep(time.Second)
		if got := m.Readiness(); got.Status != api.Ready {
			t.Errorf("got %+v", got)
		}
	})
}
