package badgerstore

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// CountsOfAccounts implements store.Overview. The counts of a day in memory
// come from there. Those of other days come from the archive, with one seek
// for each day: accounts that ListAccounts lists are beside each other.
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

// FindKey implements store.Overview. It scans all keys.
func (s *Store) FindKey(ctx context.Context, id string) (store.Key, error) {
	end := append([]byte{0}, id...)
	account, found := "", false
	err := s.ledger.Use(func() error {
		return s.archive.scan([]byte{prefixKey}, func(key, _ []byte) error {
			if !bytes.HasSuffix(key, end) {
				return ctx.Err()
			}
			account, _, _ = strings.Cut(string(key[1:]), "\x00")
			found = true
			return errFull
		})
	})
	if err = unlessFull(err); err != nil {
		return store.Key{}, err
	}
	if !found {
		return store.Key{}, store.ErrNotFound
	}
	return s.Key(ctx, account, id)
}

// Totals implements store.Overview. It reads the memory only.
func (s *Store) Totals(context.Context) (totals store.Totals, err error) {
	err = s.ledger.Use(func() error {
		totals = store.Totals{Accounts: s.ledger.Accounts(), LiveKeys: s.ledger.LiveTokens(time.Now())}
		return nil
	})
	return totals, err
}
