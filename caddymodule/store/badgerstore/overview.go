package badgerstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// errFull ends a scan whose result is complete.
var errFull = errors.New("page is full")

// CountsOfDay implements store.Overview.
func (s *Store) CountsOfDay(ctx context.Context, day calendar.Day, after string, limit int) (list []store.AccountCount, next string, err error) {
	accounts, err := s.ListAccounts(ctx, after, limit)
	if err != nil || len(accounts) == 0 {
		return nil, "", err
	}
	ids := make([]string, len(accounts))
	for i := range accounts {
		ids[i] = accounts[i].ID
	}
	if len(ids) == limit {
		next = ids[limit-1]
	}
	err = s.ledger.Use(func() error {
		for _, id := range ids {
			counts, loaded := s.ledger.Counts(id, day)
			if !loaded {
				list, err = s.archivedCounts(day, ids)
				return err
			}
			slices.SortFunc(counts, func(a, b store.Count) int { return strings.Compare(a.Endpoint, b.Endpoint) })
			for _, count := range counts {
				list = append(list, store.AccountCount{Account: id, Count: count})
			}
		}
		return nil
	})
	return list, next, err
}

// archivedCounts returns the counts that the archive has of a day, of accounts
// in ascending order.
func (s *Store) archivedCounts(day calendar.Day, ids []string) (list []store.AccountCount, err error) {
	if err := s.archive.readable(); err != nil {
		return nil, err
	}
	// Counts of keys follow those of their account: see ledger.Holder.
	end := append(dayPrefix(day), ids[len(ids)-1]+"\x01"...)
	err = scanRange(s.archive.db, dayPrefix(day), countsPrefix(day, ids[0]), end, func(key, value []byte) error {
		holder, endpoint, err := parseCountKey(key)
		if err != nil {
			return err
		}
		if _, found := slices.BinarySearch(ids, holder); !found {
			return nil // of a key, or of a deleted account
		}
		used, err := parseCount(value)
		list = append(list, store.AccountCount{Account: holder, Count: store.Count{Day: day, Endpoint: endpoint, Used: used}})
		return err
	})
	return list, err
}

// FindKey implements store.Overview. It reads all keys.
func (s *Store) FindKey(_ context.Context, id string) (found store.Key, err error) {
	err = s.ledger.Use(func() error {
		err := s.archive.scan([]byte{prefixKey}, func(key, value []byte) error {
			if !strings.HasSuffix(string(key), "\x00"+id) {
				return nil
			}
			k, err := decodeKey(key, value)
			if err != nil {
				return err
			}
			found = k.Key
			return errFull
		})
		switch {
		case errors.Is(err, errFull):
			return s.readLastUse(&found)
		case err == nil:
			return store.ErrNotFound
		}
		return err
	})
	return found, err
}

// Totals implements store.Overview.
func (s *Store) Totals(context.Context) (totals store.Totals, err error) {
	err = s.ledger.Use(func() error {
		totals = s.ledger.Totals(time.Now())
		return nil
	})
	return totals, err
}
