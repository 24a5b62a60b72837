package badgerstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// CountsOfDay implements store.Overview. The counts of a day in memory come
// from there. Those of other days come from one scan of the archive.
func (s *Store) CountsOfDay(ctx context.Context, day calendar.Day, after string, limit int) (list []store.AccountCount, next string, err error) {
	accounts, err := s.ListAccounts(ctx, after, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(accounts) > limit {
		accounts = accounts[:limit]
		next = accounts[limit-1].ID
	}
	err = s.ledger.Use(func() (err error) {
		var loaded bool
		if list, loaded = s.loadedCounts(day, accounts); !loaded {
			list, err = s.archivedCounts(day, accounts)
		}
		return err
	})
	slices.SortFunc(list, func(a, b store.AccountCount) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return list, next, err
}

// loadedCounts returns the counts of accounts if their day is in memory.
func (s *Store) loadedCounts(day calendar.Day, accounts []store.Account) (list []store.AccountCount, loaded bool) {
	for _, a := range accounts {
		counts, loaded := s.ledger.Counts(a.ID, day)
		if !loaded {
			return nil, false
		}
		for _, c := range counts {
			list = append(list, store.AccountCount{Account: a.ID, Count: c})
		}
	}
	return list, true
}

// archivedCounts returns the counts of accounts, which are sorted, on a day
// that is not in memory.
func (s *Store) archivedCounts(day calendar.Day, accounts []store.Account) (list []store.AccountCount, err error) {
	if len(accounts) == 0 {
		return nil, nil
	}
	if err := s.archive.readable(); err != nil {
		return nil, err
	}
	exists := make(map[string]bool, len(accounts))
	for _, a := range accounts {
		exists[a.ID] = true
	}
	start, end := countsPrefix(day, accounts[0].ID), countsPrefix(day, accounts[len(accounts)-1].ID)
	end[len(end)-1]++ // behind the last endpoint
	err = scanRange(s.archive.db, dayPrefix(day), start, end, func(key, value []byte) error {
		holder, endpoint, err := parseCountKey(key)
		if err != nil || !exists[holder] {
			return err
		}
		used, err := parseCount(value)
		list = append(list, store.AccountCount{Account: holder, Count: store.Count{Day: day, Endpoint: endpoint, Used: used}})
		return err
	})
	return list, err
}

// FindKey implements store.Overview. It scans all keys.
func (s *Store) FindKey(ctx context.Context, id string) (store.Key, error) {
	end := append([]byte{0}, id...)
	account, found := "", false
	err := s.ledger.Use(func() error {
		return s.archive.scan([]byte{prefixKey}, func(key, _ []byte) error {
			if !bytes.HasSuffix(key, end) {
				return nil
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
