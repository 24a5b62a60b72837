package badgerstore

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// maxValue is the size from which Badger stores a value in its value log.
// All rows are smaller, so the value log stays empty and needs no garbage
// collection.
const maxValue = 1 << 20

// archive is the database. All writes go through it.
//
// Each transaction has a number, which is also a row. A database that has
// lost its newest rows has a lower number than the log of the counts knows.
type archive struct {
	db      *badger.DB
	durable bool         // every write is synced
	sync    func() error // db.Sync
	// checkDisk returns why Badger must not write now.
	checkDisk func() error
	// confirm tells the log that the changes up to a number are on the disk.
	confirm func(changes uint64) error
	// logFailed returns why confirm would fail.
	logFailed func() error

	// mu is held while rows are written and synced. A sync must follow its
	// write before the next one: once Badger has begun another memtable, it
	// no longer syncs the log of the one before.
	mu      sync.Mutex
	changes uint64 // the number of the last change; guarded by mu
	// writes is how many writes and syncs have succeeded.
	writes atomic.Int64
	// broken is the sync that failed. The kernel may have dropped pages that
	// it could not write, and reports that only once. A later sync proves
	// nothing, so nothing is written and no call admitted until the store is
	// opened again.
	broken atomic.Pointer[error]
}

// change is a row to write. A nil value deletes the row.
type change struct {
	key, value []byte
	expires    time.Time // zero: never
	// joined puts the row into the transaction of the row before.
	joined bool
	// done, which may be nil, is called as soon as the row is written, and on
	// the disk if it is durable, before any other row is written. So the
	// memory does not differ from the rows.
	done func()
}

// write writes rows in the background, or fails with store.ErrUnavailable.
// They are on the disk about a second later.
func (a *archive) write(changes ...change) error {
	return a.writeChecked(func() ([]change, error) { return changes, nil })
}

// writeChecked is write for rows that check returns while no other rows are
// written.
func (a *archive) writeChecked(check func() ([]change, error)) error {
	if _, err := a.commit(false, check); err != nil {
		return fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
	}
	return nil
}

// writeDurably is writeChecked for rows that are on the disk when it returns
// nil. The log has the number of the change then. If the log fails, the rows are
// on the disk, and that is an error.
func (a *archive) writeDurably(check func() ([]change, error)) error {
	err := a.logFailed()
	if err == nil {
		var number uint64
		if number, err = a.commit(true, check); err == nil && number > 0 {
			err = a.confirm(number)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
	}
	return nil
}

// writeRows writes rows so that they are on the disk, and does not tell the
// log.
func (a *archive) writeRows(changes []change) error {
	_, err := a.commit(true, func() ([]change, error) { return changes, nil })
	return err
}

// commit writes rows in as few transactions as they need, and returns the number
// of the last of these changes, 0 without any: others may not be on the disk. It
// checks the disk first: Badger writes through mapped files, and a page that
// finds no space on the disk ends the process.
func (a *archive) commit(durable bool, check func() ([]change, error)) (number uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.failed(); err != nil {
		return 0, err
	}
	if err := a.checkDisk(); err != nil {
		return 0, err
	}
	changes, err := check()
	if err != nil {
		return 0, err
	}
	for len(changes) > 0 {
		written, err := a.commitSome(changes)
		if err == nil && (durable || a.durable) {
			err = a.syncNow()
		}
		if err != nil {
			return 0, err
		}
		for _, c := range changes[:written] {
			if c.done != nil {
				c.done()
			}
		}
		changes, number = changes[written:], a.changes
	}
	return number, nil
}

// commitSome writes as many rows as fit into a transaction, and returns how many
// it wrote. It does not separate rows that are joined.
func (a *archive) commitSome(changes []change) (written int, err error) {
	txn := a.db.NewTransaction(true)
	defer txn.Discard()
	if err := add(txn, changesRow(a.changes+1)); err != nil {
		return 0, err
	}
	whole := 0 // where the last rows that are joined begin
	for ; written < len(changes); written++ {
		if !changes[written].joined {
			whole = written
		}
		err := add(txn, changes[written])
		if errors.Is(err, badger.ErrTxnTooBig) && whole > 0 {
			if whole < written {
				return a.commitSome(changes[:whole])
			}
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
	a.writes.Add(1)
	return written, nil
}

// flush syncs the rows that were written, if there are changes after the
// known number. It returns the number of the last change.
func (a *archive) flush(known uint64) (number uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
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
	a.writes.Add(1)
	return nil
}

// failed returns the error of the sync that failed, if one did.
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
