package badgerstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

// Counts implements book.Engine.
func (s *Store) Counts(_ context.Context, account, key string, first, last calendar.Day) (list []store.Count, err error) {
	counts, err := s.countsFrom(first, last, []string{account}, []string{key})
	for _, c := range counts {
		list = append(list, c.Count)
	}
	return list, err
}

// CountsOfAccounts implements book.Engine.
func (s *Store) CountsOfAccounts(_ context.Context, accounts []string, first, last calendar.Day) ([]store.StoredCount, error) {
	return s.countsFrom(first, last, accounts, store.OwnCounts)
}

func (s *Store) countsFrom(first, last calendar.Day, accounts, keys []string) (list []store.StoredCount, err error) {
	var days []calendar.Day
	for day := first; day <= last; day++ {
		days = append(days, day)
	}
	err = s.ledger.Use(func() error {
		list, err = s.counts(days, accounts, keys)
		return err
	})
	return list, err
}

// counts returns the counts above zero of some keys of some accounts on some
// days. All ascend. The counts of a day in memory come from there. A day of which
// the archive lacks counts is always in memory. Those of other days come from the
// archive, with one seek for each day: accounts that List lists are beside each
// other.
func (s *Store) counts(days []calendar.Day, accounts, keys []string) (list []store.StoredCount, err error) {
	if len(accounts) == 0 || len(keys) == 0 {
		return nil, nil
	}
	var archived []calendar.Day
	for _, day := range days {
		counts, loaded := s.loadedCounts(day, accounts, keys)
		if !loaded {
			archived = append(archived, day)
		}
		list = append(list, counts...)
	}
	first, last := ledger.Holder(accounts[0], keys[0]), ledger.Holder(accounts[len(accounts)-1], keys[len(keys)-1])
	err = s.archive.counts(first, last, archived, func(holder string, c store.Count) {
		account, key, _ := strings.Cut(holder, ledger.KeySeparator)
		_, ofAccount := slices.BinarySearch(accounts, account)
		if _, ofKey := slices.BinarySearch(keys, key); ofAccount && ofKey {
			list = append(list, store.StoredCount{Account: account, Key: key, Count: c})
		}
	})
	return list, err
}

// loadedCounts returns the counts of a day if it is in memory. Those of one
// account are of one instant.
func (s *Store) loadedCounts(day calendar.Day, accounts, keys []string) (list []store.StoredCount, loaded bool) {
	holders := make([]string, len(keys))
	for _, account := range accounts {
		for i, key := range keys {
			holders[i] = ledger.Holder(account, key)
		}
		loaded := s.ledger.Counts(day, holders, func(i int, c store.Count) {
			list = append(list, store.StoredCount{Account: account, Key: keys[i], Count: c})
		})
		if !loaded { // perhaps since the last account
			return nil, false
		}
	}
	return list, true
}

// Credit implements book.Engine.
func (s *Store) Credit(_ context.Context, account string, keys []string, day calendar.Day, endpoint string, total int64) error {
	defer s.lock(account)()
	holdersOf := func(keys ...string) (holders []string) {
		for _, key := range keys {
			holders = append(holders, ledger.Holder(account, key))
		}
		return holders
	}
	limited := append([]string{""}, keys...) // what limits see
	return s.ledger.Use(func() error {
		e := ledger.Edit{
			Endpoint: endpoint, Day: day, Holders: append(holdersOf(store.Credited, store.Closed, store.ClosedCredited), holdersOf(limited...)...),
			Change: func(used []int64) {
				back := max(0, total-used[0]-used[2])
				own := min(back, used[3])
				closed := min(back-own, used[1])
				used[0], used[1], used[2] = used[0]+own, used[1]-closed, used[2]+closed
				for i := range used[3:] {
					used[3+i] = max(0, used[3+i]-own)
				}
			},
		}
		totals, err := s.countsOf(account, limited, []calendar.Day{store.TotalDay})
		if err != nil {
			return err
		}
		if len(totals) > 0 {
			e.Totals = holdersOf(limited...)
		}
		return s.ledger.Edit(e)
	})
}

// allCounts returns the counts of keys of an account on all days.
func (s *Store) allCounts(account string, keys []string) ([]store.StoredCount, error) {
	days, err := s.days()
	if err != nil {
		return nil, err
	}
	return s.countsOf(account, keys, days)
}

// countsOf returns the counts of keys of an account on some days.
func (s *Store) countsOf(account string, keys []string, days []calendar.Day) ([]store.StoredCount, error) {
	return s.counts(days, []string{account}, slices.Compact(slices.Sorted(slices.Values(keys))))
}

// moveCounts adds counts to those of closed accounts: see store.AfterClosing. Other
// counts are deleted. Each count moves in one step, so that the end of the process
// loses none and leaves none twice.
func (s *Store) moveCounts(counts []store.StoredCount) error {
	edits := make([]ledger.Edit, len(counts))
	for i, c := range counts {
		holders := []string{ledger.Holder(c.Account, c.Key)}
		if key, kept := store.AfterClosing(c.Key); kept && c.Day != store.TotalDay {
			holders = append(holders, ledger.Holder(c.Account, key))
		}
		edits[i] = ledger.Edit{Endpoint: c.Endpoint, Day: c.Day, Holders: holders, Change: func(used []int64) {
			if len(used) > 1 {
				used[1] = store.Sum(used[1], used[0])
			}
			used[0] = 0
		}}
	}
	return s.ledger.Edit(edits...)
}

// closeCounts moves the counts that are left of a deleted account, before another
// account gets its id.
func (s *Store) closeCounts(id string) error {
	keys, err := s.archive.get(deletedKey(id))
	if err != nil || keys == nil {
		return err
	}
	counts, err := s.allCounts(id, append(strings.Split(string(keys), "\x00"), ofAccount...))
	if err != nil {
		return err
	}
	return s.moveCounts(counts)
}

// ofAccount are the keys of counts that an account has besides those of its keys.
var ofAccount = []string{"", store.Credited, store.OverageKey, store.CallsKey}

// deleteCounts deletes the counts of keys that an account no longer has. If the
// account itself is deleted and has no counts, it leaves nothing.
func (s *Store) deleteCounts(account string, keys []string, deleted bool) error {
	if deleted {
		keys = append(slices.Clone(keys), ofAccount...)
	}
	counts, err := s.allCounts(account, keys)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Clone(counts), func(c store.StoredCount) bool {
		_, kept := store.AfterClosing(c.Key)
		return kept && c.Day != store.TotalDay
	})
	if err := s.moveCounts(gone); err != nil {
		return err
	}
	switch {
	case deleted && len(gone) == len(counts):
		return s.archive.write(logged, change{key: deletedKey(account)})
	case deleted && slices.ContainsFunc(gone, func(c store.StoredCount) bool { return c.Day == store.TotalDay }):
		return s.archive.write(logged, deletedRow(account, nil)) // which expires
	}
	return nil
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
