package badgerstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// auditLog is the position in the audit log.
type auditLog struct {
	mu   sync.Mutex // held while entries are written, so that none appears before an earlier one
	last store.EntryID
}

// loadAudit reads the position of the last entry.
func (s *Store) loadAudit() error {
	return s.archive.db.View(func(txn *badger.Txn) (err error) {
		o := badger.DefaultIteratorOptions
		o.Prefix, o.PrefetchValues, o.Reverse = []byte{prefixEntry}, false, true
		it := txn.NewIterator(o)
		defer it.Close()
		if it.Seek([]byte{prefixEntry + 1}); it.Valid() {
			s.audit.last, err = parseEntryKey(it.Item().Key())
		}
		return err
	})
}

// AddEntries implements store.Audit. An id is not used again after an error:
// its entry may be stored.
func (s *Store) AddEntries(_ context.Context, entries []store.Entry) error {
	s.audit.mu.Lock()
	defer s.audit.mu.Unlock()
	return s.ledger.Use(func() error {
		if len(entries) == 0 {
			return nil
		}
		changes := make([]change, len(entries))
		for i := range entries {
			e := &entries[i]
			e.ID = s.audit.last.Next(e.At)
			s.audit.last = e.ID
			changes[i] = entryChange(e)
		}
		return s.archive.writeDurably(nil, changes...)
	})
}

// ListEntries implements store.Audit. The scan begins at the id of since: the
// id of an entry is never before its time in milliseconds, also after the clock
// was set back, so no earlier id has an entry since then.
func (s *Store) ListEntries(_ context.Context, account string, since time.Time, after store.EntryID, limit int) (list []store.Entry, err error) {
	start := []byte{prefixEntry}
	if after != (store.EntryID{}) {
		start = append(entryKey(after), 0)
	}
	if first := entryKey(store.EntryID{Milliseconds: max(0, since.UnixMilli())}); bytes.Compare(first, start) > 0 {
		start = first
	}
	err = s.ledger.Use(func() error {
		return s.archive.scanFrom([]byte{prefixEntry}, start, func(key, value []byte) error {
			if len(list) >= limit {
				return errFull
			}
			e, err := decodeEntry(key, value)
			if err == nil && !e.At.Before(since) && (account == "" || account == e.Account) {
				list = append(list, e)
			}
			return err
		})
	})
	return list, unlessFull(err)
}

func entryKey(id store.EntryID) []byte {
	key := binary.BigEndian.AppendUint64([]byte{prefixEntry}, uint64(id.Milliseconds))
	return binary.BigEndian.AppendUint64(key, uint64(id.Number))
}

func parseEntryKey(key []byte) (id store.EntryID, err error) {
	if len(key) != 1+8+8 {
		return id, fmt.Errorf("audit entry %.40q: %w", key, errCorrupt)
	}
	id.Milliseconds = int64(binary.BigEndian.Uint64(key[1:]))
	id.Number = int64(binary.BigEndian.Uint64(key[9:]))
	return id, nil
}

// entryChange is the row of an audit entry.
func entryChange(e *store.Entry) change {
	v := newEncoder()
	v.time(e.At)
	for _, text := range []string{e.ActorKind, e.ActorID, e.Action, e.Account, e.Target} {
		v.string(text)
	}
	v.bytes(e.Before)
	v.bytes(e.After)
	return change{key: entryKey(e.ID), value: v.buf, expires: time.UnixMilli(e.ID.Milliseconds).AddDate(0, 0, store.ReportsFor)}
}

func decodeEntry(key, value []byte) (store.Entry, error) {
	id, err := parseEntryKey(key)
	if err != nil {
		return store.Entry{}, err
	}
	d := newDecoder(value)
	e := store.Entry{
		ID: id, At: d.time(), ActorKind: d.string(), ActorID: d.string(), Action: d.string(), Account: d.string(), Target: d.string(),
		Before: bytes.Clone(d.bytes(d.uint())), After: bytes.Clone(d.bytes(d.uint())),
	}
	if err := d.end(); err != nil {
		return store.Entry{}, fmt.Errorf("audit entry %s: %w", id, err)
	}
	return e, nil
}
