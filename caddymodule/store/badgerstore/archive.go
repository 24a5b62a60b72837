package badgerstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// maxValue is the size up to which Badger keeps a value beside its key.
// All our rows are smaller, so its value log stays empty and needs no
// garbage collection.
const maxValue = 64 << 10

// archive is the database and the one way to write to it.
type archive struct {
	db      *badger.DB
	durable bool         // all that is written is synced, and not only what asks for it
	room    func() error // why nothing may be written now
	sync    func() error // db.Sync

	// writing is held by one writer at a time, until what he wrote is
	// synced: once Badger has begun another memtable, it no longer syncs
	// the log of the one before.
	writing sync.Mutex
	// broken is the sync that failed. The kernel may have dropped what it
	// could not write, and says so once only: no later sync can be
	// believed, so nothing is written, and nobody admitted, until the store
	// is opened anew.
	broken atomic.Pointer[error]
}

// change is a row to write. A nil value deletes it.
type change struct {
	key, value []byte
	expires    time.Time // zero: never
}

// write writes rows, or fails with store.ErrUnavailable. Rows that fit
// into one transaction of Badger, as those of a few keys do, are written
// together or not at all. With durable they have reached the disk when it
// returns. Before it touches Badger it looks at the disk: Badger writes
// through mapped files, and a page that finds no space kills the process.
func (a *archive) write(durable bool, changes ...change) error {
	if err := a.try(durable, changes); err != nil {
		return fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
	}
	return nil
}

func (a *archive) try(durable bool, changes []change) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := a.failed(); err != nil {
		return err
	}
	if err := a.room(); err != nil {
		return err
	}
	txn := a.db.NewTransaction(true)
	defer func() { txn.Discard() }()
	for i := range changes {
		err := add(txn, &changes[i])
		if errors.Is(err, badger.ErrTxnTooBig) {
			if err = a.commit(txn, durable); err == nil {
				txn = a.db.NewTransaction(true)
				err = add(txn, &changes[i])
			}
		}
		if err != nil {
			return err
		}
	}
	return a.commit(txn, durable)
}

func (a *archive) commit(txn *badger.Txn, durable bool) error {
	if err := txn.Commit(); err != nil || !durable && !a.durable {
		return err
	}
	if err := a.sync(); err != nil {
		err = fmt.Errorf("syncing: %w", err)
		a.broken.Store(&err)
		return err
	}
	return nil
}

// failed returns the sync that failed, if one did.
func (a *archive) failed() error {
	if err := a.broken.Load(); err != nil {
		return *err
	}
	return nil
}

func add(txn *badger.Txn, c *change) error {
	if c.value == nil {
		return txn.Delete(c.key)
	}
	if len(c.value) >= maxValue {
		return fmt.Errorf("row of %d bytes is too large", len(c.value))
	}
	e := badger.NewEntry(c.key, c.value)
	if !c.expires.IsZero() {
		e.ExpiresAt = uint64(c.expires.Unix()) + 1 // rounded up to Badger's whole seconds
	}
	return txn.SetEntry(e)
}
