// Package pool keeps stores open while configurations come and go: a reload
// uses the store of the configuration before, with its login limiter, its
// monitor, its figures, and what waits in memory.
package pool

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/admin/health"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Opener is a module in the namespace tollgate.stores. The package
// store/storetest tests the engines of the stores that it opens.
type Opener interface {
	// Key identifies the data. Configurations with the same key share one
	// open store, even if their settings differ. All stores share one pool,
	// so a key begins with the name of the store, for example
	// "badger:/var/lib/tollgate".
	Key() string

	// Settings returns how the store is used, as a comparable value.
	Settings() any

	// Open opens the store. If it fails with something still open, it
	// returns a Backend that has Close.
	Open() (Backend, error)

	// Restore writes what was dumped to a store that has no data and that
	// no gate uses. The errors include store.ErrNotEmpty and store.ErrInUse.
	// If it fails after it has begun to write, gates refuse the store.
	Restore(ctx context.Context, pieces iter.Seq2[book.Piece, error]) error
}

// Backend is an open store and the login limiter that belongs to it.
type Backend struct {
	// Engine keeps what the gate knows. Required.
	Engine book.Engine

	// Limiter limits login attempts. nil limits them in memory, for this
	// process, until it ends.
	Limiter *login.Limiter

	// Close closes the store and the limiter, when no configuration uses
	// them. nil if there is nothing to close. After an error that wraps
	// store.ErrNotClosed, it is called again before the next Open and
	// when the process exits.
	Close func() error
}

// stores holds the open stores, so that they outlive the configurations
// that use them.
var stores = caddy.NewUsagePool()

// errNotOpen says that stores has no such store.
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

// Attached is what capabilities keep as long as a store is open.
type Attached struct {
	Events interface {
		Follow() // makes the events of the entries that are new in the audit log
		Reached(store.Quota)
		Close()
	}
	Feed    interface{ Close() }
	Refused interface {
		Add(store.Refused)
		Flush(context.Context) error
		Close()
	}
}

// Store is an open store with all that outlives a configuration.
type Store struct {
	Backend

	Book   *book.Book
	Clock  store.Clock
	Health *health.Monitor
	Attached
	// Closing ends before the store is closed.
	Closing context.Context

	key      string
	settings any
	figures  figures
	end      context.CancelFunc // ends Closing
}

// LocalClock is the clock of a store that has none.
type LocalClock struct{}

// Now and Since implement store.Clock.
func (LocalClock) Now() time.Time                  { return time.Now() }
func (LocalClock) Since(t time.Time) time.Duration { return time.Since(t) }

// Join makes a configuration a user of a store until it calls Leave. It opens the
// store if no other configuration has it open. Caddy loads one at a time.
func Join(opener Opener, attach func(*book.Book) Attached) (*Store, error) {
	return join(opener, func() (caddy.Destructor, error) { return open(opener, attach) })
}

// JoinOpen is Join for a store that is open already. It returns nil for another.
func JoinOpen(opener Opener) (*Store, error) {
	s, err := join(opener, func() (caddy.Destructor, error) { return nil, errNotOpen })
	if errors.Is(err, errNotOpen) {
		return nil, nil
	}
	return s, err
}

func join(opener Opener, missing caddy.Constructor) (*Store, error) {
	value, _, err := stores.LoadOrNew(opener.Key(), missing)
	if err != nil {
		return nil, err
	}
	return value.(*Store), nil
}

// Leave ends the use of a store by a configuration. The store is closed when no
// configuration uses it.
func (s *Store) Leave() error {
	_, err := stores.Delete(s.key)
	return err
}

// HasSettings tells whether the store was opened with the settings of an opener.
func (s *Store) HasSettings(of Opener) bool { return s.settings == of.Settings() }

// open opens a store that is not open yet.
func open(opener Opener, attach func(*book.Book) Attached) (*Store, error) {
	key := opener.Key()
	if err := closeUnclosed(key); err != nil {
		return nil, fmt.Errorf("opening store: it is still open and cannot be closed: %w", err)
	}
	backend, err := opener.Open()
	s := &Store{Backend: backend, Clock: LocalClock{}, key: key, settings: opener.Settings()}
	s.Closing, s.end = context.WithCancel(context.Background())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening store: %w", err), s.Destruct())
	}
	if s.Limiter == nil {
		s.Limiter = login.New(login.NewMemory(time.Now, nil))
	}
	if clock, ok := s.Engine.(store.Clock); ok {
		s.Clock = clock
	}
	s.Book = book.New(s.Engine, outage.Logger(ProcessLog("tollgate.store")))
	s.Health = health.New(s.Engine.Check, ProcessLog("tollgate.health"))
	s.Attached = attach(s.Book)
	go s.finish()
	return s, nil
}

// finish finishes the credits in which a gate has ended, and writes plans that end:
// once the store works, and then every minute.
func (s *Store) finish() {
	for pause := time.Second; ; {
		err := errors.Join(s.Book.FinishCredits(s.Closing), s.Book.EndPlans(s.Closing))
		if !errors.Is(err, store.ErrUnavailable) {
			pause = time.Minute
			if err != nil && s.Closing.Err() == nil {
				ProcessLog("tollgate.store").Error("finishing credits and plans", zap.Error(err))
			}
		}
		select {
		case <-time.After(pause):
		case <-s.Closing.Done():
			return
		}
	}
}

// Destruct ends a backup, writes the events, the refused calls and the recent
// calls in memory to the store, and closes it. The closed store refuses later
// requests.
func (s *Store) Destruct() error {
	s.end()
	var err error
	if s.Book != nil {
		s.Feed.Close()
		s.Events.Close()
		s.Refused.Close()
		err = s.Book.Close()
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
