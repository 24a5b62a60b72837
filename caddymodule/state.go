package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/admin/health"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/feature/refused"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// states holds the open stores, so that they outlive the configurations
// that use them.
var states = caddy.NewUsagePool()

// errNotOpen says that states has no such store.
var errNotOpen = errors.New("store is not open")

// unclosed holds, by key, the Close functions that failed when the last
// configuration ended, as on a full disk. Such a store may still lock its
// data.
var unclosed sync.Map // of func() error

func init() { caddy.OnExit(exitUnclosed) }

// exitUnclosed exits with a code of its own if a store cannot be closed.
// Caddy only logs errors of Stop and Cleanup, and exits with 0. Callbacks
// such as this one run after the cleanup of all modules, and cannot return
// an error. Only Caddy's admin endpoint is still open then.
func exitUnclosed(context.Context) {
	failed := false
	unclosed.Range(func(key, closeStore any) bool {
		if err := closeStore.(func() error)(); err != nil {
			ProcessLog("tollgate.store").Error("exiting with a store that cannot be closed; the next start reads its logs",
				zap.String("store", key.(string)), zap.Error(err))
			failed = true
		}
		return true
	})
	if failed {
		os.Exit(caddy.ExitCodeFailedQuit)
	}
}

// state is an open store with all that outlives a configuration.
type state struct {
	Backend
	key      string
	health   *health.Monitor
	settings any
	clock    store.Clock
	figures  figures
	book     *book.Book
	refused  *refused.Refused
	emitter  *event.Emitter
	// closing ends before the store is closed. end ends it.
	closing context.Context
	end     context.CancelFunc
}

// localClock is the clock of a store that has none.
type localClock struct{}

func (localClock) Now() time.Time                  { return time.Now() }
func (localClock) Since(t time.Time) time.Duration { return time.Since(t) }

// openState opens a store that is not open yet.
func openState(opener StoreOpener) (*state, error) {
	key := opener.Key()
	if err := closeUnclosed(key); err != nil {
		return nil, fmt.Errorf("opening store: it is still open and cannot be closed: %w", err)
	}
	backend, err := opener.Open()
	s := &state{Backend: backend, key: key, settings: opener.Settings(), clock: localClock{}}
	s.closing, s.end = context.WithCancel(context.Background())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store: %w", err), s.Destruct())
	}
	if s.Limiter == nil {
		s.Limiter = login.New(login.NewMemory(time.Now, nil))
	}
	if clock, ok := s.Engine.(store.Clock); ok {
		s.clock = clock
	}
	s.book = book.New(s.Engine, outage.Logger(ProcessLog("tollgate.store")))
	s.health = health.New(s.Engine.Check, ProcessLog("tollgate.health"))
	s.emitter = newEmitter(s.book, s.clock)
	s.refused = refused.NewRefused(refused.Options{
		Engine: s.Engine, Dropped: func(calls int64) { refusedDropped.Add(float64(calls)) },
		Logger: outage.Logger(ProcessLog("tollgate.report")),
	})
	go s.finishCredits()
	return s, nil
}

// finishCredits finishes the credits in which a gate has ended. It waits until the
// store works.
func (s *state) finishCredits() {
	for {
		err := s.book.FinishCredits(s.closing)
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrUnavailable) {
			ProcessLog("tollgate.store").Error("finishing credits", zap.Error(err))
			return
		}
		select {
		case <-time.After(time.Second):
		case <-s.closing.Done():
			return
		}
	}
}

// Destruct ends a backup, writes the events, the refused calls and the recent
// calls in memory to the store, and closes it. The closed store refuses later
// requests.
func (s *state) Destruct() error {
	s.end()
	var err error
	if s.book != nil {
		s.emitter.Close()
		s.refused.Close()
		err = s.book.Close()
	}
	if s.Close == nil {
		return err
	}
	closed := s.Close()
	if closed != nil {
		unclosed.Store(s.key, s.Close)
	}
	return errors.Join(err, closed)
}

// closeUnclosed closes a store whose Close failed before.
func closeUnclosed(key string) error {
	closeStore, found := unclosed.Load(key)
	if !found {
		return nil
	}
	if err := closeStore.(func() error)(); errors.Is(err, store.ErrNotClosed) {
		return err
	}
	unclosed.Delete(key)
	return nil
}
