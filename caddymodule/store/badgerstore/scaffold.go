package badgerstore

import (
	"context"
	"errors"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest/memstore"
)

// scaffold must be replaced.
type scaffold struct {
	store.Refusals
	store.Audit
	store.Events
}

func newScaffold() scaffold { m := memstore.New(); return scaffold{m, m, m} }

func (s *Store) ChangeAccounts(ctx context.Context, ids []string, change func(int, *store.Account, bool) error) ([]store.Account, []error) {
	accounts, errs := make([]store.Account, len(ids)), make([]error, len(ids))
	for i, id := range ids {
		accounts[i], errs[i] = s.ChangeAccount(ctx, id, func(a *store.Account, exists bool) error { return change(i, a, exists) })
	}
	return accounts, errs
}

func (s *Store) CountsOfDay(ctx context.Context, day calendar.Day, after string, limit int) (list []store.AccountCount, next string, err error) {
	accounts, err := s.ListAccounts(ctx, after, limit)
	for _, a := range accounts {
		counts, err := s.Counts(ctx, a.ID, "", day, day)
		if err != nil {
			return nil, "", err
		}
		for _, c := range counts {
			list = append(list, store.AccountCount{Account: a.ID, Count: c})
		}
	}
	if len(accounts) == limit {
		next = accounts[limit-1].ID
	}
	return list, next, err
}

func (s *Store) FindKey(ctx context.Context, id string) (store.Key, error) {
	accounts, err := s.ListAccounts(ctx, "", 1000000)
	for _, a := range accounts {
		if k, err := s.Key(ctx, a.ID, id); err == nil {
			return k, nil
		}
	}
	return store.Key{}, errors.Join(store.ErrNotFound, err)
}

func (s *Store) Totals(context.Context) (store.Totals, error) { return store.Totals{}, nil }

func (s *Store) Export(context.Context, func(store.Item) error) error { return errors.New("not yet") }
