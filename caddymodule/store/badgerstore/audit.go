package badgerstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// entryKey orders the entries by their ids.
func entryKey(id store.EntryID) []byte {
	key := binary.BigEndian.AppendUint64([]byte{prefixEntry}, uint64(id.Milliseconds))
	return binary.BigEndian.AppendUint64(key, uint64(id.Number))
}

func parseEntryKey(key []byte) (store.EntryID, error) {
	if len(key) != 1+8+8 {
		return store.EntryID{}, fmt.Errorf("audit entry: %w", errCorrupt)
	}
	return store.EntryID{
		Milliseconds: int64(binary.BigEndian.Uint64(key[1:])), Number: int64(binary.BigEndian.Uint64(key[9:])),
	}, nil
}

func entryRow(entry store.Entry) change {
	e := newEncoder()
	e.time(entry.At)
	for _, text := range []string{entry.ActorKind, entry.ActorID, entry.Action, entry.Account, entry.Target, string(entry.Before), string(entry.After)} {
		e.string(text)
	}
	return change{key: entryKey(entry.ID), value: e.buf, expires: entry.At.AddDate(0, 0, store.ReportsFor)}
}

func decodeEntry(key, value []byte) (entry store.Entry, err error) {
	if entry.ID, err = parseEntryKey(key); err != nil {
		return entry, err
	}
	d := newDecoder(value)
	entry.At = d.time()
	entry.ActorKind, entry.ActorID, entry.Action, entry.Account, entry.Target = d.string(), d.string(), d.string(), d.string(), d.string()
	entry.Before, entry.After = document(d.string()), document(d.string())
	if err := d.end(); err != nil {
		return entry, fmt.Errorf("audit entry %s: %w", entry.ID, err)
	}
	return entry, nil
}

// document returns a JSON document, nil if there is none.
func document(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

// loadLastEntry finds the id of the newest entry, so that the next one is
// greater, also if the clock was set back.
func (s *Store) loadLastEntry() error {
	return s.archive.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Reverse, o.PrefetchValues = true, false
		it := txn.NewIterator(o)
		defer it.Close()
		it.Seek([]byte{prefixEntry + 1})
		if !it.ValidForPrefix([]byte{prefixEntry}) {
			return nil
		}
		id, err := parseEntryKey(it.Item().Key())
		s.lastEntry = id
		return err
	})
}

// AddEntries implements store.Audit.
func (s *Store) AddEntries(_ context.Context, entries []store.Entry) error {
	return s.ledger.Use(func() error {
		// Held until the entries are written: a reader that continues after
		// an entry must not miss one with a smaller id.
		s.auditing.Lock()
		defer s.auditing.Unlock()
		changes := make([]change, len(entries))
		for i := range entries {
			s.lastEntry = s.lastEntry.Next(entries[i].At)
			entries[i].ID = s.lastEntry
			changes[i] = entryRow(entries[i])
		}
		return s.archive.writeDurably(nil, changes...)
	})
}

// ListEntries implements store.Audit.
func (s *Store) ListEntries(_ context.Context, account string, since time.Time, after store.EntryID, limit int) (list []store.Entry, err error) {
	start := entryKey(after)
	err = s.ledger.Use(func() error {
		err := s.archive.scanFrom([]byte{prefixEntry}, start, func(key, value []byte) error {
			if len(list) >= limit {
				return errFull
			}
			entry, err := decodeEntry(key, value)
			if err == nil && entry.ID.Compare(after) > 0 && !entry.At.Before(since) && (account == "" || account == entry.Account) {
				list = append(list, entry)
			}
			return err
		})
		if errors.Is(err, errFull) {
			err = nil
		}
		return err
	})
	return list, err
}
