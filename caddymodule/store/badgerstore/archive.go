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
//
// Each transaction also writes the number of the last change, 1 more than
// that of the transaction before, so that a database that has lost its
// newest rows can be told from one that never had them.
type archive struct {
	db      *badger.DB
	durable bool         // all that is written is synced, and not only what asks for it
	room    func() error // why nothing may be written now
	sync    func() error // db.Sync
	// confirm tells the log that changes up to a number are on the disk, and
	// confirmable why it could not.
	confirm     func(changes uint64) error
	confirmable func() error

	// writing is held by one writer at a time, until what it wrote is
	// synced: once Badger has begun another memtable, it no longer syncs
	// the log of the one before. It guards changes.
	writing sync.Mutex
	changes uint64 // the number of the last change
	// broken is the sync that failed. The kernel may have dropped what it
	// could not write, and says so once only: no later sync can be
	// believed, so nothing is written, and no call admitted, until the
	// store is opened again.
	broken atomic.Pointer[error]
}

// change is a row to write. A nil value deletes it.
type change struct {
	key, value []byte
	expires    time.Time // zero: never
}

// write writes rows behind an answer, or fails with store.ErrUnavailable.
// They are on the disk about a second later.
func (a *archive) write(changes ...change) error {
	if _, err := a.try(false, changes); err != nil {
		return fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
	}
	return nil
}

// writeDurably writes rows, or fails with store.ErrUnavailable. Rows that
// fit into one transaction of Badger, as those of a few keys do, are
// written together or not at all. When it returns nil, they are on the disk
// and the log knows of them.
//
// It calls apply, which may be nil, as soon as the rows are on the disk: the
// memory must not differ from them, also if the log then fails and the
// caller is told so.
func (a *archive) writeDurably(apply func(), changes ...change) error {
	err := a.confirmable()
	if err == nil {
		var number uint64
		if number, err = a.try(true, changes); err == nil {
			if apply != nil {
				apply()
			}
			err = a.confirm(number)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
	}
	return nil
}

// try writes rows and returns the number of the last change. Before it
// touches Badger it looks at the disk: Badger writes through mapped files,
// and a page that finds no space kills the process.
func (a *archive) try(durable bool, changes []change) (number uint64, err error) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if err := a.failed(); err != nil {
		return 0, err
	}
	if err := a.room(); err != nil {
		return 0, err
	}
	for len(changes) > 0 {
		written, err := a.commit(changes)
		if err == nil && (durable || a.durable) {
			err = a.syncNow()
		}
		if err != nil {
			return 0, err
		}
		changes = changes[written:]
	}
	return a.changes, nil
}

// commit writes as many of the rows as fit into a transaction, and returns
// how many these are.
func (a *archive) commit(changes []change) (written int, err error) {
	txn := a.db.NewTransaction(true)
	defer txn.Discard()
	if err := add(txn, changesRow(a.changes+1)); err != nil {
		return 0, err
	}
	for ; written < len(changes); written++ {
		err := add(txn, changes[written])
		if errors.Is(err, badger.ErrTxnTooBig) && written > 0 {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if err := txn.Commit(); err != nil {
		return 0, err
	}
	a.changes++
	return written, nil
}

// flush makes all that was written reach the disk, unless the changes up to
// a number are all there are. It returns the number of the last one.
func (a *archive) flush(known uint64) (number uint64, err error) {
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.changes > known {
		if err = a.failed(); err == nil {
			err = a.syncNow()
		}
	}
	return a.changes, err
}

func (a *archive) syncNow() error {
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

func add(txn *badger.Txn, c change) error {
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
