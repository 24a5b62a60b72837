package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// stripes is how many locks all accounts share.
const stripes = 64

// alter runs fn, which changes an account or its keys, while no other call
// changes them, so that fn can check before it changes. Only accounts that
// share the lock wait.
func (s *Store) alter(account string, fn func() error) error {
	mu := &s.altering[s.stripe(account)]
	mu.Lock()
	defer mu.Unlock()
	return s.ledger.Use(fn)
}

// stripe is the number of an account's lock.
func (s *Store) stripe(account string) uint64 { return maphash.String(s.seed, account) % stripes }

// ChangeAccount implements store.Accounts.
func (s *Store) ChangeAccount(ctx context.Context, id string, edit func(*store.Account, bool) error) (store.Account, error) {
	accounts, errs := s.ChangeAccounts(ctx, []string{id}, func(_ int, a *store.Account, exists bool) error { return edit(a, exists) })
	return accounts[0], errs[0]
}

// edited returns an account as edit leaves it.
func (s *Store) edited(id string, edit func(*store.Account, bool) error) (store.Account, error) {
	old, err := s.account(id)
	exists := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.Account{}, err
	}
	account := old
	account.ID = id
	if err := edit(&account, exists); err != nil {
		return store.Account{}, err
	}
	account.ID = id
	if exists {
		account.CreatedAt = old.CreatedAt
	}
	account.CreatedAt = account.CreatedAt.UTC()
	for i := range account.Overrides {
		o := &account.Overrides[i]
		o.ExpiresAt, o.CreatedAt = o.ExpiresAt.UTC(), o.CreatedAt.UTC()
	}
	return account, nil
}

// ChangeAccounts implements store.Accounts. All accounts are written at once,
// also those that did not change: the write of an earlier change may have failed
// after it reached the memory. Errors of the disk are those of all accounts that
// were to be written.
func (s *Store) ChangeAccounts(_ context.Context, ids []string, edit func(int, *store.Account, bool) error) ([]store.Account, []error) {
	accounts, errs := make([]store.Account, len(ids)), make([]error, len(ids))
	defer s.lockAll(ids)()
	err := s.ledger.Use(func() error {
		var changes []change
		for i, id := range ids {
			accounts[i], errs[i] = s.edited(id, func(a *store.Account, exists bool) error { return edit(i, a, exists) })
			if errs[i] == nil {
				changes = append(changes, change{key: accountKey(id), value: encodeAccount(accounts[i])})
			}
		}
		if len(changes) == 0 {
			return nil
		}
		return s.archive.writeDurably(func() {
			for i := range accounts {
				if errs[i] == nil {
					s.ledger.PutAccount(&accounts[i])
				}
			}
		}, changes...)
	})
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return accounts, errs
}

// lockAll takes the locks of alter for some accounts. Their order is the same
// for all callers, so that none waits for another one in a circle.
func (s *Store) lockAll(accounts []string) (unlock func()) {
	var held [stripes]bool
	for _, account := range accounts {
		held[s.stripe(account)] = true
	}
	return s.lockStripes(held)
}

// lockEvery is lockAll for every account.
func (s *Store) lockEvery() (unlock func()) {
	var held [stripes]bool
	for i := range held {
		held[i] = true
	}
	return s.lockStripes(held)
}

func (s *Store) lockStripes(held [stripes]bool) (unlock func()) {
	for i := range held {
		if held[i] {
			s.altering[i].Lock()
		}
	}
	return func() {
		for i := range held {
			if held[i] {
				s.altering[i].Unlock()
			}
		}
	}
}

// Account implements store.Accounts.
func (s *Store) Account(_ context.Context, id string) (account store.Account, err error) {
	err = s.ledger.Use(func() (err error) {
		account, err = s.account(id)
		return err
	})
	return account, err
}

func (s *Store) account(id string) (store.Account, error) {
	var account store.Account
	err := s.archive.get(accountKey(id), func(value []byte) (err error) {
		account, err = decodeAccount(id, value)
		return err
	})
	return account, err
}

// ListAccounts implements store.Accounts.
func (s *Store) ListAccounts(_ context.Context, after string, limit int) ([]store.Account, error) {
	var list []store.Account
	err := s.ledger.Use(func() error {
		// Ids have no NUL, so this is the first key after that of the id.
		start := append(accountKey(after), 0)
		return s.archive.scanFrom([]byte{prefixAccount}, start, func(key, value []byte) error {
			if len(list) >= limit {
				return errFull
			}
			a, err := decodeAccount(string(key[1:]), value)
			list = append(list, a)
			return err
		})
	})
	return list, unlessFull(err)
}

// DeleteAccount implements store.Accounts. The account is removed from memory
// first, so that no further call is counted for it. Its row is deleted last:
// keys that outlive it would be valid for the next account of that id. After
// an error a part of it may be deleted; a second call deletes the rest.
func (s *Store) DeleteAccount(_ context.Context, id string) error {
	return s.alter(id, func() error {
		account, err := s.account(id)
		if err != nil {
			return err
		}
		s.ledger.RemoveAccount(id)
		s.recent.forget(id)
		erased, err := s.erase(id)
		if !erased {
			s.ledger.PutAccount(&account)
		}
		return err
	})
}

// erase deletes everything that is stored of an account, and tells whether
// the row of the account is deleted.
func (s *Store) erase(id string) (erased bool, err error) {
	// The rows of the keys tell which counters the keys have.
	if err := s.resetAll(id); err != nil {
		return false, err
	}
	if err := s.deleteKeys(id); err != nil {
		return false, err
	}
	changes := []change{{key: accountKey(id)}}
	for slot := range byte(recentLists * recentSlots) {
		changes = append(changes, change{key: recentKey(id, slot)})
	}
	err = s.archive.writeDurably(func() { erased = true }, changes...)
	return erased, err
}

// deleteKeys deletes the keys of an account.
func (s *Store) deleteKeys(account string) error {
	keys, err := s.keys(account)
	if err != nil {
		return err
	}
	return s.remove(keys)
}

// remove deletes keys and ends their tokens, in writes of maxDeletions.
func (s *Store) remove(keys []keyRow) error {
	for part := range slices.Chunk(keys, maxDeletions) {
		if err := s.archive.writeDurably(func() { s.removeTokens(part) }, deletions(part)...); err != nil {
			return err
		}
	}
	return nil
}

// resetAll sets all counters of an account and its keys on all days to zero.
func (s *Store) resetAll(account string) error {
	days := s.ledger.Days()
	err := s.eachDay(func(day calendar.Day) error {
		days = append(days, day)
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(days)
	return s.reset(account, "", slices.Compact(days)...)
}

// reset sets counters of an account and its keys on some days to zero: those
// of an endpoint, or all if endpoint is empty.
func (s *Store) reset(account, endpoint string, days ...calendar.Day) error {
	keys, err := s.keys(account)
	if err != nil {
		return err
	}
	var calls []store.Call
	for _, day := range days {
		counted, err := s.counted(account, keys, day)
		if err != nil {
			return err
		}
		calls = append(calls, counted...)
	}
	if endpoint != "" {
		calls = slices.DeleteFunc(calls, func(call store.Call) bool { return call.Endpoint != endpoint })
	}
	return s.ledger.Reset(calls...)
}

// counted returns a call for each counter of an account and its keys on a
// day. The archive also has counters of keys that are no longer stored.
func (s *Store) counted(account string, keys []keyRow, day calendar.Day) (calls []store.Call, err error) {
	of := []string{""}
	for _, k := range keys {
		of = append(of, k.CountsAs())
	}
	for _, key := range of {
		counts, loaded := s.ledger.Counts(ledger.Holder(account, key), day)
		if !loaded { // perhaps since the last key
			return s.archivedCounters(account, day)
		}
		for _, c := range counts {
			calls = append(calls, store.Call{Account: account, Key: key, Endpoint: c.Endpoint, Day: day})
		}
	}
	return calls, nil
}

// archivedCounters returns a call for each counter of an account and its keys
// that the archive has of a day. Those of the keys follow those of the account
// without a gap: see ledger.Holder.
func (s *Store) archivedCounters(account string, day calendar.Day) (calls []store.Call, err error) {
	if err := s.archive.readable(); err != nil {
		return nil, err
	}
	prefix := append(dayPrefix(day), account...)
	end := append(slices.Clone(prefix), '\x02')
	err = scanRange(s.archive.db, prefix, countsPrefix(day, account), end, func(key, _ []byte) error {
		holder, endpoint, err := parseCountKey(key)
		_, ofKey, _ := strings.Cut(holder, ledger.KeySeparator)
		calls = append(calls, store.Call{Account: account, Key: ofKey, Endpoint: endpoint, Day: day})
		return err
	})
	return calls, err
}

// eachDay calls fn with every day that has counts in the archive. It seeks
// from day to day and does not read the counts.
func (s *Store) eachDay(fn func(calendar.Day) error) error {
	return s.archive.db.View(func(txn *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix = []byte{prefixCount}
		o.PrefetchValues = false
		it := txn.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); {
			key := it.Item().Key()
			if len(key) < dayEnd {
				return fmt.Errorf("count %q: %w", key, errCorrupt)
			}
			day := dayOf(key)
			if err := fn(day); err != nil {
				return err
			}
			next := dayPrefix(day + 1)
			if bytes.Compare(next, key) < 0 {
				return nil // the last of all days
			}
			it.Seek(next)
		}
		return nil
	})
}

// Counts implements store.Usage. A day of which the archive lacks counts is
// always in memory.
func (s *Store) Counts(_ context.Context, account, key string, first, last calendar.Day) (list []store.Count, err error) {
	err = s.ledger.Use(func() error {
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

// ResetCounts implements store.Usage.
func (s *Store) ResetCounts(_ context.Context, account, endpoint string, day calendar.Day) error {
	return s.ledger.Use(func() error { return s.reset(account, endpoint, day) })
}
