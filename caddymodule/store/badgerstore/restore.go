package badgerstore

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
)

// restoreRows is how many rows a restore writes at a time.
const restoreRows = 4096

// Restore writes items to a store that has no data, and creates a missing
// directory. The errors are store.ErrInUse, store.ErrNotEmpty, that of an
// item, or of the disk. If it fails after it has begun to write, Open refuses
// the directory.
func Restore(dir string, o Options, items iter.Seq2[store.Item, error]) (err error) {
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.checkEmpty(); err != nil {
		return err
	}
	// From here on, whatever writes the version writes this one.
	s.archive.setVersion(versionRestoring)
	if err := s.writeVersion(); err != nil {
		return err
	}
	r := &restorer{store: s}
	for item, err := range items {
		if err == nil {
			err = r.add(item)
		}
		if err != nil {
			return err
		}
	}
	if err := errors.Join(r.endCalls(), r.flush(0)); err != nil {
		return err
	}
	s.archive.setVersion(version)
	return s.writeVersion()
}

// checkEmpty returns store.ErrNotEmpty if the store has data. Login attempts
// are none.
func (s *Store) checkEmpty() error {
	for _, prefix := range []byte{prefixAccount, prefixKey, prefixCount, prefixRecent, prefixRefused, prefixEntry, prefixEvent, prefixKnown} {
		err := s.archive.scan([]byte{prefix}, func([]byte, []byte) error { return store.ErrNotEmpty })
		if err != nil {
			return err
		}
	}
	return nil
}

// writeVersion writes the version of the format to the disk, after all rows
// that were written before.
func (s *Store) writeVersion() error {
	return s.archive.writeDurably(nil, s.archive.formatRows(s.journal.log.Number())[0])
}

// restorer makes rows of items.
type restorer struct {
	store *Store
	rows  []change

	caller string // the account of calls
	calls  []store.Record
}

func (r *restorer) add(item store.Item) error {
	switch {
	case item.Account != nil:
		account := *item.Account
		r.put(change{key: accountKey(account.ID), value: encodeAccount(account)})
	case item.Key != nil:
		k := keyRow{Key: item.Key.Key, hash: item.Key.Hash}
		r.put(k.change())
		if at := k.LastUsedAt; !at.IsZero() {
			r.put(change{key: usedKey(k.ID), value: encodeUse(keyUse{k.ID, at, k.LastUsedFrom}), expires: at.Add(usedFor)})
		}
	case item.Count != nil:
		c := item.Count
		if c.Used < 0 {
			return fmt.Errorf("count of %s: %w", c.Account, errCorrupt)
		}
		r.put(countRow(appendCountKey(nil, c.Day, ledger.Holder(c.Account, c.Key), c.Endpoint), uint64(c.Used)))
	case item.Call != nil:
		if item.Call.Account != r.caller {
			if err := r.endCalls(); err != nil {
				return err
			}
			r.caller = item.Call.Account
		}
		r.calls = append(r.calls, *item.Call)
	case item.Refused != nil:
		r.put(refusedRow(*item.Refused))
	case item.Entry != nil:
		r.put(entryRow(*item.Entry))
	case item.Event != nil:
		r.put(knownRow(item.Event.ID, item.Event.Known))
		if item.Event.Queued {
			r.put(eventRow(item.Event))
		}
	}
	return r.flush(restoreRows)
}

func (r *restorer) put(row change) { r.rows = append(r.rows, row) }

// flush writes the rows if there are more than some.
func (r *restorer) flush(more int) error {
	if len(r.rows) <= more {
		return nil
	}
	rows := r.rows
	r.rows = nil
	return r.store.archive.write(rows...)
}

// endCalls makes the rows of an account's recent calls, which follow each
// other.
func (r *restorer) endCalls() error {
	calls := r.calls
	r.calls = nil
	slices.SortStableFunc(calls, byTime)
	calls = calls[max(0, len(calls)-store.MaxRecent):]
	number := uint64(0)
	for part := range slices.Chunk(calls, recentPerSlot) {
		r.put(change{
			key: recentKey(r.caller, byte(number)), value: encodeSlot(number, part),
			expires: calls[len(calls)-1].At.Add(store.RecentFor + 24*time.Hour),
		})
		number++
	}
	return nil
}
