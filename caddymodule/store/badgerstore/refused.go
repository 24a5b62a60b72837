package badgerstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

func refusedDay(day calendar.Day) []byte {
	return binary.BigEndian.AppendUint32([]byte{prefixRefused}, uint32(day))
}

func refusedKey(r store.Refused) []byte {
	return append(refusedDay(r.Day), r.Account+"\x00"+r.Endpoint+"\x00"+r.Code...)
}

func refusedRow(r store.Refused) change {
	return change{key: refusedKey(r), value: binary.AppendUvarint(nil, uint64(r.Calls)), expires: expiry(r.Day)}
}

func decodeRefused(key, value []byte) (r store.Refused, err error) {
	if len(key) < dayEnd || len(key) > maxText {
		return r, fmt.Errorf("refused calls: %w", errCorrupt)
	}
	parts := strings.Split(string(key[dayEnd:]), "\x00")
	if len(parts) != 3 {
		return r, fmt.Errorf("refused calls: %w", errCorrupt)
	}
	r = store.Refused{Day: dayOf(key), Account: parts[0], Endpoint: parts[1], Code: parts[2]}
	r.Calls, err = parseCount(value)
	return r, err
}

// AddRefused implements store.Refusals.
func (s *Store) AddRefused(_ context.Context, rows []store.Refused) error {
	return s.ledger.Use(func() error {
		s.refusing.Lock()
		defer s.refusing.Unlock()
		changes := make([]change, len(rows))
		for i, row := range rows {
			err := s.archive.get(refusedKey(row), func(value []byte) error {
				stored, err := parseCount(value)
				row.Calls += stored
				return err
			})
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			changes[i] = refusedRow(row)
		}
		return s.archive.write(changes...)
	})
}

// ListRefused implements store.Refusals.
func (s *Store) ListRefused(_ context.Context, account string, first, last calendar.Day, after store.Refused, limit int) (list []store.Refused, err error) {
	err = s.ledger.Use(func() error {
		for day := max(first, after.Day); day <= last && len(list) < limit; day++ {
			// With an account, only its rows of the day.
			start := refusedDay(day)
			if account != "" {
				start = append(start, account+"\x00"...)
			}
			err := s.archive.scan(start, func(key, value []byte) error {
				if len(list) >= limit {
					return errFull
				}
				row, err := decodeRefused(key, value)
				if err == nil && row.Compare(after) > 0 {
					list = append(list, row)
				}
				return err
			})
			if err != nil && !errors.Is(err, errFull) {
				return err
			}
		}
		return nil
	})
	return list, err
}
