package badgerstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// auditLog is the position in the audit log.
type auditLog struct {
	mu   sync.Mutex // held while entries are written, so that none appears before an earlier one
	last store.EntryID
}

// loadAudit reads the position of the last entry.
func (s *Store) loadAudit() error {
	return unlessFull(s.archive.scanBack([]byte{prefixEntry}, []byte{prefixEntry + 1}, func(key, _ []byte) (err error) {
		if s.audit.last, err = parseEntryKey(key); err == nil {
			err = errFull
		}
		return err
	}))
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

// ListEntries implements store.Audit.
func (s *Store) ListEntries(ctx context.Context, account string, since time.Time, after store.EntryID, limit int) ([]store.Entry, error) {
	start := firstEntry(since)
	if after != (store.EntryID{}) {
		if behind := append(entryKey(after), 0); bytes.Compare(behind, start) > 0 {
			start = behind
		}
	}
	return s.entries(ctx, account, since, limit, func(fn visit) error {
		return s.archive.scanFrom([]byte{prefixEntry}, start, fn)
	})
}

// LastEntries implements store.Audit.
func (s *Store) LastEntries(ctx context.Context, account string, since time.Time, before store.EntryID, limit int) ([]store.Entry, error) {
	first, end := firstEntry(since), []byte{prefixEntry + 1}
	if before != (store.EntryID{}) {
		end = entryKey(before)
	}
	return s.entries(ctx, account, since, limit, func(fn visit) error {
		return s.archive.scanBack([]byte{prefixEntry}, end, func(key, value []byte) error {
			if bytes.Compare(key, first) < 0 {
				return errFull
			}
			return fn(key, value)
		})
	})
}

// firstEntry is where the entries since a time begin: the id of an entry is
// never before its time in milliseconds, also after the clock was set back, so
// no earlier id has an entry since then.
func firstEntry(since time.Time) []byte {
	return entryKey(store.EntryID{Milliseconds: max(0, since.UnixMilli())})
}

// entries returns up to limit entries of a scan: those since a time, and of one
// account unless account is empty.
func (s *Store) entries(ctx context.Context, account string, since time.Time, limit int, scan func(visit) error) (list []store.Entry, err error) {
	err = s.ledger.Use(func() error {
		return scan(func(key, value []byte) error {
			if len(list) >= limit {
				return errFull
			}
			e, err := decodeEntry(key, value)
			if err == nil && !e.At.Before(since) && (account == "" || account == e.Account) {
				list = append(list, e)
			}
			// The entries of one account can need a scan of all.
			return cmp.Or(err, ctx.Err())
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
