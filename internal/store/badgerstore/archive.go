package badgerstore

import (
	"errors"
	"fmt"
	"slices"
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
type archive struct {
	db   *badger.DB
	sync func() error // db.Sync
	// checkDisk returns why Badger must not write now.
	checkDisk func() error
	// log appends rows to the log, a record for each group, and syncs it if sync is
	// set.
	log func(groups [][]change, sync bool) error
	// inLog tells whether the log has a row.
	inLog func(key []byte) bool

	// mu is held while rows are written and synced. A sync must follow its
	// write before the next one: once Badger has begun another memtable, it
	// no longer syncs the log of the one before.
	mu    sync.Mutex
	kept  uint64 // how many transactions with the promise kept there are; guarded by mu
	dirty bool   // something was written since the last sync; guarded by mu
	// writes is how many writes and syncs have succeeded.
	writes atomic.Int64
	// broken is the sync that failed. The kernel may have dropped pages that
	// it could not write, and reports that only once. A later sync proves
	// nothing, so nothing is written and no call admitted until the store is
	// opened again. The same is true if a row is in the log and not in Badger.
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

// promise is when rows are on the disk.
type promise int

const (
	soon     promise = iota // about a second later, but a loss of power can take more
	logged                  // about a second later, in the log
	durable                 // when they are written, in the log
	kept                    // when they are written, in Badger
	appended                // as logged: the log has them already
)

// isLogged tells whether the log has rows before Badger.
func (p promise) isLogged() bool { return p == logged || p == durable || p == appended }

// write writes rows, or fails with store.ErrUnavailable.
func (a *archive) write(p promise, changes ...change) error {
	return a.writeChecked(p, func() ([]change, error) { return changes, nil })
}

// writeChecked is write for rows that check returns while no other rows are
// written. If the disk fails, durable rows can be there after a restart.
func (a *archive) writeChecked(p promise, check func() ([]change, error)) error {
	if err := a.commit(p, check); err != nil {
		return fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
	}
	return nil
}

// commit writes rows in as few transactions as they need. It checks the disk
// first: Badger writes through mapped files, and a page that finds no space on
// the disk ends the process.
func (a *archive) commit(p promise, check func() ([]change, error)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.failed(); err != nil {
		return err
	}
	if p != appended {
		if err := a.checkDisk(); err != nil {
			return err
		}
	}
	changes, err := check()
	if err != nil {
		return err
	}
	if p == soon && slices.ContainsFunc(changes, func(c change) bool { return a.inLog(c.key) }) {
		p = logged // after what the log has of these rows
	}
	var txns []*badger.Txn
	var groups [][]change
	defer func() {
		for _, txn := range txns {
			txn.Discard()
		}
	}()
	for len(changes) > 0 {
		var fixed []change
		if p == kept {
			fixed = []change{keptRow(a.kept + uint64(len(txns)) + 1)}
		}
		txn, written, err := a.transaction(fixed, changes)
		if err != nil {
			return err
		}
		txns, groups, changes = append(txns, txn), append(groups, changes[:written]), changes[written:]
	}
	if p != appended && p.isLogged() && len(groups) > 0 {
		if err := a.log(groups, p == durable); err != nil {
			return err
		}
	}
	for i, txn := range txns {
		if err := a.commitOne(p, txn); err != nil {
			return err
		}
		for _, c := range groups[i] {
			if c.done != nil {
				c.done()
			}
		}
	}
	return nil
}

// commitOne commits a transaction whose rows are in the log if they have to be.
func (a *archive) commitOne(p promise, txn *badger.Txn) error {
	if err := txn.Commit(); err != nil {
		if p.isLogged() {
			a.broken.CompareAndSwap(nil, &err)
		}
		return err
	}
	a.writes.Add(1)
	a.dirty = true
	if p == kept {
		a.kept++
		return a.syncNow()
	}
	return nil
}

// transaction returns a transaction with some rows and as many of others as fit,
// and how many of these are in it. It does not separate rows that are joined.
func (a *archive) transaction(fixed, changes []change) (txn *badger.Txn, rows int, err error) {
	txn = a.db.NewTransaction(true)
	for _, c := range fixed {
		err = errors.Join(err, add(txn, c))
	}
	whole := 0 // where the last rows that are joined begin
	for ; rows < len(changes) && err == nil; rows++ {
		if !changes[rows].joined {
			whole = rows
		}
		err = add(txn, changes[rows])
		if errors.Is(err, badger.ErrTxnTooBig) && whole > 0 {
			if whole < rows {
				txn.Discard()
				return a.transaction(fixed, changes[:whole])
			}
			return txn, rows, nil
		}
	}
	if err != nil {
		txn.Discard()
		return nil, 0, err
	}
	return txn, rows, nil
}

// current returns rows as they are, to be written again. One that is past its time
// is no deletion: the clock may be wrong.
func (a *archive) current(keys []string) (rows []change, err error) {
	err = a.view(func(txn *badger.Txn) (err error) {
		for _, key := range keys {
			row := change{key: []byte(key)}
			it := txn.NewKeyIterator(row.key, badger.IteratorOptions{AllVersions: true})
			if it.Rewind(); it.Valid() && (it.Item().ExpiresAt() != 0 || !it.Item().IsDeletedOrExpired()) {
				row.expires = expiresAt(it.Item().ExpiresAt())
				row.value, err = it.Item().ValueCopy([]byte{})
			}
			if it.Close(); err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, err
}

// flush syncs what was written since the last sync.
func (a *archive) flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.failed(); err != nil || !a.dirty {
		return err
	}
	return a.syncNow()
}

func (a *archive) syncNow() error {
	if err := a.sync(); err != nil {
		err = fmt.Errorf("syncing: %w", err)
		a.broken.Store(&err)
		return err
	}
	a.dirty = false
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
	e.ExpiresAt = c.expiresAt()
	return txn.SetEntry(e)
}

// expiresAt is when a row expires as Badger has it, rounded up to whole seconds;
// zero for never.
func (c *change) expiresAt() uint64 {
	if c.expires.IsZero() {
		return 0
	}
	return uint64(c.expires.Unix()) + 1
}

// expiresAt is the time that change.expiresAt rounded.
func expiresAt(seconds uint64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds)-1, 0).UTC()
}
