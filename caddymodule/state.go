package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/health"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// StoreOpener is what a module in the namespace tollgate.stores does.
type StoreOpener interface {
	// Key names the data, and nothing else: two configurations of the
	// same data share one open store whatever their settings are.
	Key() string

	// Settings returns how the store is to be used, as a value that can
	// be compared.
	Settings() any

	// Open opens the store. If it is an io.Closer it is closed when the
	// last configuration lets go of it, and once more before it is opened
	// again if that failed with store.ErrNotClosed.
	Open() (store.Store, error)
}

// states holds the open stores, so that they outlive the configurations
// that use them.
var states = caddy.NewUsagePool()

// errNotOpen says that the pool has no such store.
var errNotOpen = errors.New("store is not open")

// unclosed holds, by their keys, the stores whose closing failed when the
// last configuration let go of them, as on a full disk. Those that are
// still open keep their data to themselves.
var unclosed sync.Map // of io.Closer

func init() { caddy.OnExit(exitUnclosed) }

// exitUnclosed ends a process whose stores cannot be closed with an exit
// code that says so. Caddy only logs an error of Stop and Cleanup, and then
// exits with 0; callbacks like this one are the last that it calls, when
// all modules are cleaned up, and cannot return an error either. Only
// Caddy's admin endpoint is still open then.
func exitUnclosed(context.Context) {
	failed := false
	unclosed.Range(func(key, left any) bool {
		if err := left.(io.Closer).Close(); err != nil {
			caddy.Log().Named("tollgate.store").Error("exiting with a store that cannot be closed; the next start reads its logs",
				zap.String("store", key.(string)), zap.Error(err))
			failed = true
		}
		return true
	})
	if failed {
		os.Exit(caddy.ExitCodeFailedQuit)
	}
}

// state is what outlives a configuration.
type state struct {
	key      string
	store    store.Store
	throttle *login.Throttle
	health   *health.Monitor
	settings any
}

// openState opens a store and the login throttle's memory in it.
func openState(opener StoreOpener) (*state, error) {
	key := opener.Key()
	if err := closeLeft(key); err != nil {
		return nil, fmt.Errorf("opening store: still open, as it cannot be closed: %w", err)
	}
	db, err := opener.Open()
	if err != nil {
		return nil, fmt.Errorf("opening store: %w", err)
	}
	s := &state{
		key: key, store: db, throttle: login.New(db), settings: opener.Settings(),
		health: health.New(db.Check, caddy.Log().Named("tollgate.health")),
	}
	if err := s.throttle.Restore(time.Now(), attempts(db)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening store: %w", err), s.Destruct())
	}
	return s, nil
}

// Destruct closes the store. Requests that come later are refused by it.
func (s *state) Destruct() error {
	closer, ok := s.store.(io.Closer)
	if !ok {
		return nil
	}
	err := closer.Close()
	if err != nil {
		unclosed.Store(s.key, closer)
	}
	return err
}

// closeLeft closes what is still open from before.
func closeLeft(key string) error {
	left, ok := unclosed.Load(key)
	if !ok {
		return nil
	}
	if err := left.(io.Closer).Close(); errors.Is(err, store.ErrNotClosed) {
		return err
	}
	unclosed.Delete(key)
	return nil
}

// attempts iterates over the throttle's rows in a store.
func attempts(db store.Attempts) iter.Seq2[login.Row, error] {
	errStop := errors.New("no more rows are wanted")
	return func(yield func(login.Row, error) bool) {
		err := db.LoadAttempts(context.Background(), func(key, value []byte) error {
			if !yield(login.Row{Key: key, Value: value}, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(login.Row{}, err)
		}
	}
}
