package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// maxValue is the size up to which Badger keeps a value beside its key.
// All our rows are smaller, so its value log stays empty and needs no
// garbage collection.
const maxValue = 64 << 10

// journal is the ledger's log in Badger.
type journal struct {
	db     *badger.DB
	disk   *disk
	always bool         // sync every group
	sync   func() error // db.Sync

	// What Append needs anew for each group, and only one runs at a time.
	buf     []byte
	entries []badger.Entry
	txn     *badger.Txn
	durable bool // the group is to be synced

	// broken is the sync that failed. The kernel may have dropped what it
	// could not write, and says so once only: no later sync can be
	// believed, so nothing is admitted until the store is opened anew.
	broken error
}

// Append implements ledger.Log. Before it touches Badger it looks at the
// disk: Badger writes through mapped files, and a page that finds no
// space kills the process.
func (j *journal) Append(g *ledger.Group) error {
	if j.broken != nil {
		return j.broken
	}
	if err := j.disk.check(); err != nil {
		return err
	}
	if err := j.write(g); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func (j *journal) write(g *ledger.Group) error {
	n := len(g.Changes) + len(g.Counts)
	if cap(j.entries) < n {
		j.entries = make([]badger.Entry, n+n/2)
	}
	entries := j.entries[:n]
	clear(entries)
	j.buf = j.buf[:0]
	j.txn = j.db.NewTransaction(true)
	j.durable = g.Sync || j.always
	defer func() { j.txn.Discard() }()
	for i := range g.Changes {
		if err := j.change(&entries[i], &g.Changes[i]); err != nil {
			return err
		}
	}
	entries = entries[len(g.Changes):]
	for i := range g.Counts {
		j.encode(&entries[i], &g.Counts[i])
		if err := j.put(&entries[i]); err != nil {
			return err
		}
	}
	return j.commit()
}

// commit ends the transaction, and syncs it if the group asks for that:
// once Badger has begun another memtable, it no longer syncs the log of
// this one.
func (j *journal) commit() error {
	if err := j.txn.Commit(); err != nil || !j.durable {
		return err
	}
	if err := j.sync(); err != nil {
		j.broken = fmt.Errorf("syncing: %w", err)
	}
	return j.broken
}

func (j *journal) change(e *badger.Entry, c *ledger.Change) error {
	e.Key, e.Value = c.Key, c.Value
	if c.Value == nil {
		return j.put(e)
	}
	if len(c.Value) >= maxValue {
		return fmt.Errorf("row of %d bytes is too large", len(c.Value))
	}
	if !c.ExpiresAt.IsZero() {
		e.ExpiresAt = uint64(c.ExpiresAt.Unix()) + 1 // rounded up to Badger's whole seconds
	}
	return j.put(e)
}

// encode writes a count's row into the shared buffer. Where that grows,
// earlier rows keep the memory that they were written to. A count of zero
// needs no row.
func (j *journal) encode(e *badger.Entry, c *ledger.CountChange) {
	start := len(j.buf)
	j.buf = appendCountKey(j.buf, c.Call)
	end := len(j.buf)
	if e.Key = j.buf[start:end:end]; c.Used == 0 {
		return
	}
	j.buf = binary.AppendUvarint(j.buf, uint64(c.Used))
	e.Value = j.buf[end:len(j.buf):len(j.buf)]
	e.ExpiresAt = uint64(expiry(c.Day).Unix())
}

// put adds an entry, or a deletion if it has no value; a transaction that
// is full is committed and another begun. The changes that ask for a sync
// come first in a group and fit into the first transaction, so those that
// belong together stay together.
func (j *journal) put(e *badger.Entry) error {
	err := j.add(e)
	if errors.Is(err, badger.ErrTxnTooBig) {
		if err = j.commit(); err == nil {
			j.txn = j.db.NewTransaction(true)
			err = j.add(e)
		}
	}
	return err
}

func (j *journal) add(e *badger.Entry) error {
	if e.Value == nil {
		return j.txn.Delete(e.Key)
	}
	return j.txn.SetEntry(e)
}

// expiry is when the counts of a day may go.
func expiry(d calendar.Day) time.Time {
	return time.Unix((int64(d)+store.CountsFor+1)*int64(24*time.Hour/time.Second), 0)
}

// LoadDay implements ledger.Log.
func (j *journal) LoadDay(day calendar.Day, fn func(account, endpoint string, used int64)) error {
	return scanParallel(j.db, dayPrefix(day), func(key, value []byte) error {
		account, endpoint, err := parseCountKey(key)
		if err != nil {
			return err
		}
		used, err := parseCount(value)
		if err == nil {
			fn(account, endpoint, used)
		}
		return err
	})
}
