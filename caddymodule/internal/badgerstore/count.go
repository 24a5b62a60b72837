package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
)

// Counts implements book.Engine. A day of which the archive lacks counts is
// always in memory. A deleted account has none, also if they are not deleted yet.
func (s *Store) Counts(_ context.Context, account, key string, first, last calendar.Day) (list []store.Count, err error) {
	err = s.ledger.Use(func() error {
		if s.ledger.Deleted(account, 0) {
			return nil
		}
		holder := ledger.Holder(account, key)
		var archived []calendar.Day
		for day := first; day <= last; day++ {
			counts, loaded := s.ledger.Counts(holder, day)
			if !loaded {
				archived = append(archived, day)
			}
			list = append(list, counts...)
		}
		return s.archive.counts(holder, holder, archived, func(_ string, c store.Count) { list = append(list, c) })
	})
	return list, err
}

// CountsOfAccounts implements book.Engine. The counts of a day in memory come
// from there. Those of other days come from the archive, with one seek for each
// day: accounts that List lists are beside each other.
func (s *Store) CountsOfAccounts(_ context.Context, accounts []string, first, last calendar.Day) (list []store.AccountCount, err error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	err = s.ledger.Use(func() error {
		var archived []calendar.Day
		for day := first; day <= last; day++ {
			counts, loaded := s.loadedCounts(day, accounts)
			if !loaded {
				archived = append(archived, day)
			}
			list = append(list, counts...)
		}
		exists := make(map[string]bool, len(accounts))
		for _, id := range accounts {
			exists[id] = true
		}
		return s.archive.counts(accounts[0], accounts[len(accounts)-1], archived, func(holder string, c store.Count) {
			if exists[holder] {
				list = append(list, store.AccountCount{Account: holder, Count: c})
			}
		})
	})
	return list, err
}

// loadedCounts returns the counts of accounts if their day is in memory.
func (s *Store) loadedCounts(day calendar.Day, accounts []string) (list []store.AccountCount, loaded bool) {
	for _, id := range accounts {
		counts, loaded := s.ledger.Counts(id, day)
		if !loaded {
			return nil, false
		}
		for _, c := range counts {
			list = append(list, store.AccountCount{Account: id, Count: c})
		}
	}
	return list, true
}

// ResetCounts implements book.Engine.
func (s *Store) ResetCounts(_ context.Context, account string, keys []string, endpoint string, day calendar.Day) error {
	return s.ledger.Use(func() error {
		counted, err := s.counted(account, append([]string{""}, keys...), day)
		if err != nil {
			return err
		}
		return s.ledger.Reset(slices.DeleteFunc(counted, func(c store.Call) bool { return endpoint != "" && c.Endpoint != endpoint })...)
	})
}

// clearCounts deletes the counts that are left of a deleted account, and then
// the row that says that there are some.
func (s *Store) clearCounts(id string) error {
	keys, err := s.archive.get(deletedKey(id))
	if err != nil || keys == nil {
		return err
	}
	days, err := s.days()
	if err != nil {
		return err
	}
	counted, err := s.counted(id, strings.Split(string(keys), "\x00"), days...)
	if err != nil {
		return err
	}
	if err := s.ledger.Reset(counted...); err != nil {
		return err
	}
	return s.archive.write(change{key: deletedKey(id)})
}

// clearDeleted is clearCounts for all accounts that were deleted when the process
// died.
func (s *Store) clearDeleted() error {
	var ids []string
	prefix := deletedKey("")
	err := s.archive.scan(prefix, func(key, _ []byte) error {
		ids = append(ids, string(key[len(prefix):]))
		return nil
	})
	for _, id := range ids {
		err = errors.Join(err, s.clearCounts(id))
	}
	return err
}

// retire sets all counters of the keys that an account no longer has to zero.
// A process that ends before leaves them for store.CountsFor days.
func (s *Store) retire(a *book.Account) error {
	days, err := s.days()
	if err != nil {
		return err
	}
	counted, err := s.counted(a.ID, a.Retired, days...)
	if err != nil {
		return err
	}
	return s.ledger.Reset(slices.DeleteFunc(counted, func(c store.Call) bool { return !slices.Contains(a.Retired, c.Key) })...)
}

// counted returns a call for each counter of some keys of an account on some
// days; those of an empty key are of the account. Of a day that is not in memory
// it returns all counters of the account and its keys, also of those that are
// no longer stored.
func (s *Store) counted(account string, keys []string, days ...calendar.Day) (calls []store.Call, err error) {
	var archived []calendar.Day
	for _, day := range days {
		for _, key := range keys {
			counts, loaded := s.ledger.Counts(ledger.Holder(account, key), day)
			if !loaded { // perhaps since the last key
				archived = append(archived, day)
				break
			}
			for _, c := range counts {
				calls = append(calls, store.Call{Account: account, Key: key, Endpoint: c.Endpoint, Day: day})
			}
		}
	}
	// The holders of the keys follow that of the account without a gap: see
	// ledger.Holder.
	err = s.archive.counts(account, account+"\x02", archived, func(holder string, c store.Count) {
		_, key, _ := strings.Cut(holder, ledger.KeySeparator)
		calls = append(calls, store.Call{Account: account, Key: key, Endpoint: c.Endpoint, Day: c.Day})
	})
	return calls, err
}

// days returns all days that have counts, in ascending order. It seeks from day
// to day in the archive and does not read the counts.
func (s *Store) days() (days []calendar.Day, err error) {
	days = s.ledger.Days()
	err = s.archive.view(func(txn *badger.Txn) error {
		it := newIterator(txn, []byte{prefixCount})
		defer it.Close()
		for it.Rewind(); it.Valid(); {
			key := it.Item().Key()
			if len(key) < dayEnd {
				return fmt.Errorf("count %q: %w", key, errCorrupt)
			}
			day := dayOf(key)
			days = append(days, day)
			next := dayPrefix(day + 1)
			if bytes.Compare(next, key) < 0 {
				return nil // the last of all days
			}
			it.Seek(next)
		}
		return nil
	})
	slices.Sort(days)
	return slices.Compact(days), err
}
