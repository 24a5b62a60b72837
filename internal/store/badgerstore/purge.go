package badgerstore

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Badger hides a row that is past its time, and drops it when its table is
// compacted. That never happens to a table in the last level whose keys are not
// written again, such as those that begin with a day. So such rows are deleted:
// the deletions are compacted into these tables.

const (
	// purgeEvery is how often all rows that are past their time are deleted.
	purgeEvery = 24 * time.Hour

	// purgeAfter is how long after the store opens they are deleted first. A
	// clock that is wrong when the machine starts is usually right by then.
	purgeAfter = time.Hour

	// purgeRows is how many rows a step looks at, and so the most that it
	// deletes. There is a step each second, so that changes of accounts and
	// Badger's compactions do not wait for it.
	purgeRows = 4096

	// expireInOrder are the kinds of rows that expire in the order of their
	// keys, or never: behind the first row that is not past its time there is
	// none that is.
	expireInOrder = string(prefixAccount) + string(prefixKeys) + string(prefixLogins) +
		string(prefixCount) + string(prefixEntry)
)

// purger deletes the rows that are past their time.
type purger struct {
	archive *archive
	now     func() time.Time
	rows    int       // purgeRows, except in tests
	since   time.Time // from when on no large step of the clock was seen
	due     time.Time // when the next round begins
	next    []byte    // where the round continues; nil without a round
}

func newPurger(a *archive, now func() time.Time) *purger {
	began := now()
	return &purger{archive: a, now: now, rows: purgeRows, since: began, due: began.Add(purgeAfter)}
}

// step continues a round, or begins one if it is due. A round that the end of
// the process interrupts is repeated. After a large step of the clock it waits a
// day: rows that only a wrong clock takes for expired work again when the clock
// is right.
func (p *purger) step() error {
	now := p.now()
	if stepped := now.Round(0).Sub(p.since.Round(0)) - now.Sub(p.since); stepped.Abs() > clockAhead {
		p.since, p.due, p.next = now, now.Add(purgeEvery), nil
	}
	if p.next == nil {
		if now.Before(p.due) {
			return nil
		}
		p.due, p.next = now.Add(purgeEvery), []byte{}
	}
	expired, next, err := p.archive.expired(p.next, now.Add(-clockAhead), p.rows)
	if err == nil {
		err = p.archive.deleteExpired(expired, now.Add(-clockAhead))
	}
	if err == nil {
		p.next = next
	}
	return err
}

// expired looks at so many rows from start on. It returns the keys of those whose
// time ended before a time, and where to continue; nil if there are no more rows.
func (a *archive) expired(start []byte, before time.Time, rows int) (keys [][]byte, next []byte, err error) {
	if err := a.readable(); err != nil {
		return nil, nil, err
	}
	err = a.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.PrefetchValues = false
		o.AllVersions = true // the default skips expired rows
		it := txn.NewIterator(o)
		defer it.Close()
		var last []byte
		seen := 0
		for it.Seek(start); it.Valid(); it.Next() {
			item := it.Item()
			if bytes.Equal(item.Key(), last) {
				continue // an older version
			}
			if seen++; seen > rows {
				next = item.KeyCopy(nil)
				return nil
			}
			last = item.KeyCopy(last)
			switch {
			case past(item, before):
				keys = append(keys, item.KeyCopy(nil))
			case !item.IsDeletedOrExpired() && strings.IndexByte(expireInOrder, last[0]) >= 0:
				next = []byte{last[0] + 1}
				return nil
			}
		}
		return nil
	})
	return keys, next, err
}

// past tells whether the time of a row ended before a time. A deleted row has
// none.
func past(item *badger.Item, before time.Time) bool {
	return item.ExpiresAt() != 0 && item.ExpiresAt() < uint64(max(0, before.Unix()))
}

// deleteExpired deletes rows that expired has found, except those that have
// been written again.
func (a *archive) deleteExpired(keys [][]byte, before time.Time) error {
	if len(keys) == 0 {
		return nil
	}
	return a.writeChecked(soon, func() (deletions []change, err error) {
		err = a.db.View(func(txn *badger.Txn) error {
			for _, key := range keys {
				item, err := txn.Get(key)
				if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
					return err
				}
				if err != nil || past(item, before) {
					deletions = append(deletions, change{key: key})
				}
			}
			return nil
		})
		return deletions, err
	})
}
