package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// CountsOfAccounts implements store.Overview.
func (s *Store) CountsOfAccounts(_ context.Context, accounts []string, first, last calendar.Day) (list []store.AccountCount, err error) {
	defer s.lock()()
	for _, id := range accounts {
		for c, used := range s.find(id, 0).counts {
			if used > 0 && c.key == "" && first <= c.day && c.day <= last {
				list = append(list, store.AccountCount{Account: id, Count: store.Count{Day: c.day, Endpoint: c.endpoint, Used: used}})
			}
		}
	}
	return list, nil
}

// FindKey implements store.Overview.
func (s *Store) FindKey(_ context.Context, id string) (store.Key, error) {
	defer s.lock()()
	for _, a := range s.accounts {
		if k := a.keys.Find(id); k != nil {
			return *k, nil
		}
	}
	return store.Key{}, store.ErrNotFound
}

// Totals implements store.Overview.
func (s *Store) Totals(context.Context) (store.Totals, error) {
	defer s.lock()()
	totals := store.Totals{Accounts: len(s.accounts)}
	for _, k := range s.tokens {
		if k.Live(time.Now()) {
			totals.LiveKeys++
		}
	}
	return totals, nil
}

// Export implements store.Exporter.
func (s *Store) Export(_ context.Context, write func(store.Item) error) error {
	defer s.lock()()
	hashes := map[string]token.Hash{} // by the id of the key
	for hash, k := range s.tokens {
		hashes[k.ID] = hash
	}
	for _, id := range slices.Sorted(maps.Keys(s.accounts)) {
		if err := s.accounts[id].export(hashes, write); err != nil {
			return err
		}
	}
	return s.exportReports(write)
}

func (a *account) export(hashes map[string]token.Hash, write func(store.Item) error) error {
	items := []store.Item{{Account: &a.Account}}
	for _, k := range a.keys {
		items = append(items, store.Item{Key: &store.StoredKey{Key: *k, Hash: hashes[k.ID]}})
	}
	for c, used := range a.counts {
		count := store.Count{Day: c.day, Endpoint: c.endpoint, Used: used}
		items = append(items, store.Item{Count: &store.StoredCount{Account: a.ID, Key: c.key, Count: count}})
	}
	for i := range a.recent {
		items = append(items, store.Item{Call: &a.recent[i]})
	}
	return writeAll(items, write)
}

func (s *Store) exportReports(write func(store.Item) error) error {
	var items []store.Item
	for row, calls := range s.refused {
		row.Calls = calls
		items = append(items, store.Item{Refused: &row})
	}
	for i := range s.entries {
		items = append(items, store.Item{Entry: &s.entries[i]})
	}
	queued := map[string]bool{}
	for _, e := range s.queue {
		queued[e.ID] = true
		items = append(items, store.Item{Event: e})
	}
	for id, until := range s.known {
		if !queued[id] {
			items = append(items, store.Item{Event: &store.Event{ID: id, Known: until}})
		}
	}
	return writeAll(items, write)
}

func writeAll(items []store.Item, write func(store.Item) error) error {
	for _, item := range items {
		if err := write(item); err != nil {
			return err
		}
	}
	return nil
}
