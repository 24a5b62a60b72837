package pool

import (
	"context"
	"iter"

	"github.com/caddy-tollgate/tollgate/internal/login"
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
