package badgerstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// AddRefused implements store.Refusals. What it adds survives the end of the
// process.
func (s *Store) AddRefused(_ context.Context, rows []store.Refused) error {
	s.refusing.Lock()
	defer s.refusing.Unlock()
	return s.ledger.Use(func() error {
		changes := make([]change, len(rows))
		for i, row := range rows {
			before, err := s.refusedCalls(refusedKey(row))
			if err != nil {
				return err
			}
			row.Calls = before + min(row.Calls, math.MaxInt64-before)
			changes[i] = refusedChange(row)
		}
		return s.archive.write(changes...)
	})
}

// refusedCalls returns the calls of a row, 0 if there is no such row.
func (s *Store) refusedCalls(key []byte) (calls int64, err error) {
	err = s.archive.get(key, func(value []byte) (err error) {
		calls, err = parseRefusedCalls(value)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return calls, err
}

// ListRefused implements store.Refusals. With an account, it seeks the rows of
// the account on each day that has rows.
func (s *Store) ListRefused(_ context.Context, account string, first, last calendar.Day, after store.Refused, limit int) (list []store.Refused, err error) {
	err = s.ledger.Use(func() error {
		if err := s.archive.readable(); err != nil {
			return err
		}
		return s.archive.db.View(func(txn *badger.Txn) error {
			o := badger.DefaultIteratorOptions
			o.Prefix, o.PrefetchValues = []byte{prefixRefused}, false
			it := txn.NewIterator(o)
			defer it.Close()
			after.Calls = 0
			start := refusedDay(max(0, first))
			if after != (store.Refused{}) {
				if key := append(refusedKey(after), 0); bytes.Compare(key, start) > 0 {
					start = key
				}
			}
			for it.Seek(start); it.Valid() && len(list) < limit; {
				var row store.Refused
				err := it.Item().Value(func(value []byte) (err error) {
					row, err = decodeRefused(it.Item().Key(), value)
					return err
				})
				if err != nil {
					return err
				}
				if row.Day > last {
					return nil
				}
				if account == "" || row.Account == account {
					list = append(list, row)
					it.Next()
					continue
				}
				// Rows of this account can only follow on this day if they
				// are greater.
				day := row.Day
				if row.Account > account {
					day++
				}
				it.Seek(append(append(refusedDay(day), account...), 0))
			}
			return nil
		})
	})
	return list, err
}

func refusedDay(day calendar.Day) []byte {
	return binary.BigEndian.AppendUint32([]byte{prefixRefused}, uint32(day))
}

func refusedKey(r store.Refused) []byte {
	key := append(append(refusedDay(r.Day), r.Account...), 0)
	return append(append(append(key, r.Endpoint...), 0), r.Code...)
}

// refusedChange is the row of refused calls.
func refusedChange(r store.Refused) change {
	return change{key: refusedKey(r), value: binary.AppendUvarint(nil, uint64(r.Calls)), expires: (r.Day + store.ReportsFor + 1).UTC()}
}

func decodeRefused(key, value []byte) (store.Refused, error) {
	if len(key) >= dayEnd && len(key) <= maxText {
		fields := strings.Split(string(key[dayEnd:]), "\x00")
		calls, err := parseRefusedCalls(value)
		if err == nil && len(fields) == 3 {
			return store.Refused{Day: dayOf(key), Account: fields[0], Endpoint: fields[1], Code: fields[2], Calls: calls}, nil
		}
	}
	return store.Refused{}, fmt.Errorf("refused calls %.40q: %w", key, errCorrupt)
}

func parseRefusedCalls(value []byte) (int64, error) {
	n, size := binary.Uvarint(value)
	if size <= 0 || size != len(value) || n > math.MaxInt64 {
		return 0, fmt.Errorf("refused calls: %w", errCorrupt)
	}
	return int64(n), nil
}
