package badgerstore

import (
	"bytes"
	"context"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// behindEntries is behind the keys of all entries.
var behindEntries = []byte{prefixEntry + 1}

// loadEntries reads the id of the last entry.
func (s *Store) loadEntries() error {
	return s.archive.view(func(txn *badger.Txn) (err error) {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues, o.Reverse = []byte{prefixEntry}, false, true
		it := txn.NewIterator(o)
		defer it.Close()
		if it.Seek(behindEntries); it.Valid() {
			s.lastEntry, err = parseEntryKey(it.Item().Key())
		}
		s.shown.Store(new(s.lastEntry))
		return err
	})
}

// entry gives an entry its id, and returns its row. archive.mu is held. An id is
// not used again after an error: its entry may be stored.
func (s *Store) entry(l *book.LogEntry) change {
	l.ID = s.lastEntry.Next(l.At)
	s.lastEntry = l.ID
	return entryChange(l)
}

func entryChange(l *book.LogEntry) change {
	return change{key: entryKey(l.ID), value: l.Value, expires: time.UnixMilli(l.ID.Milliseconds).AddDate(0, 0, store.ReportsFor), joined: true}
}

// Entries implements book.Engine. It has only entries that are on the disk, so
// that no event tells of a change that a loss of power undoes.
func (s *Store) Entries(_ context.Context, after, before store.EntryID, reverse bool, limit int) (list []book.LogEntry, err error) {
	first, end := append(entryKey(after), 0), append(entryKey(*s.shown.Load()), 0)
	if after.Milliseconds < 0 {
		first = []byte{prefixEntry}
	}
	if before != (store.EntryID{}) && bytes.Compare(entryKey(before), end) < 0 {
		end = entryKey(before)
	}
	err = s.ledger.Use(func() error {
		return s.archive.view(func(txn *badger.Txn) error {
			o := badger.DefaultIteratorOptions
			o.Prefix, o.PrefetchValues, o.Reverse = []byte{prefixEntry}, false, reverse
			it := txn.NewIterator(o)
			defer it.Close()
			start := first
			if reverse {
				start = end
			}
			for it.Seek(start); it.Valid() && len(list) < limit; it.Next() {
				key := it.Item().Key()
				behind := bytes.Compare(key, end) >= 0
				if behind && reverse {
					continue // the end itself
				}
				if behind || bytes.Compare(key, first) < 0 {
					return nil
				}
				id, err := parseEntryKey(key)
				if err != nil {
					return err
				}
				value, err := it.Item().ValueCopy(nil)
				if err != nil {
					return err
				}
				list = append(list, book.LogEntry{ID: id, Value: value})
			}
			return nil
		})
	})
	return list, err
}
