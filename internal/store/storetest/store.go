package storetest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Store is a book with a method for each change that tests make.
type Store struct{ *book.Book }

// New returns a Store on an engine.
func New(e book.Engine) *Store { return &Store{book.New(e, slog.New(slog.DiscardHandler))} }

// Now is the time of the engine.
func (s *Store) Now() time.Time {
	if clock, ok := s.Engine.(store.Clock); ok {
		return clock.Now()
	}
	return time.Now()
}

// ChangeAccount changes an account, or creates it.
func (s *Store) ChangeAccount(ctx context.Context, id string, change func(account *store.Account, exists bool) error) (store.Account, error) {
	accounts, errs := s.ChangeAccounts(ctx, []string{id}, func(_ int, a *store.Account, exists bool) error { return change(a, exists) })
	return accounts[0], errs[0]
}

// ChangeAccounts changes several accounts, or creates them.
func (s *Store) ChangeAccounts(ctx context.Context, ids []string, change func(i int, account *store.Account, exists bool) error) ([]store.Account, []error) {
	accounts := make([]store.Account, len(ids))
	errs := s.Change(ctx, s.Now(), ids, func(i int, a *book.Account) error {
		exists, created := a.Exists, a.CreatedAt
		if err := change(i, &a.Account, exists); err != nil {
			return err
		}
		a.Exists, accounts[i] = true, a.Account
		accounts[i].ID, accounts[i].Overrides = ids[i], slices.Clone(a.Overrides)
		if exists {
			accounts[i].CreatedAt = created
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			accounts[i] = store.Account{}
		}
	}
	return accounts, errs
}

// PutAccount creates an account, or replaces it.
func PutAccount(ctx context.Context, b *book.Book, account store.Account) (store.Account, error) {
	return (&Store{b}).ChangeAccount(ctx, account.ID, func(a *store.Account, _ bool) error {
		*a = account
		return nil
	})
}

// Account returns an account.
func (s *Store) Account(ctx context.Context, id string) (store.Account, error) {
	a, err := s.Get(ctx, id)
	if err != nil {
		return store.Account{}, err
	}
	return a.Account, nil
}

// ListAccounts lists accounts.
func (s *Store) ListAccounts(ctx context.Context, after string, limit int) (list []store.Account, err error) {
	documents, err := s.List(ctx, after, limit, false)
	for _, a := range documents {
		list = append(list, a.Account)
	}
	return list, err
}

// DeleteAccount deletes an account.
func (s *Store) DeleteAccount(ctx context.Context, id string) error {
	return s.ChangeOne(ctx, s.Now(), id, func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound
		}
		a.Exists = false
		return nil
	})
}

// ResetCounts gives back what an account used of an endpoint on a day, or of all
// endpoints if endpoint is empty.
func (s *Store) ResetCounts(ctx context.Context, account, endpoint string, day calendar.Day) error {
	err := s.Reset(ctx, s.Now(), account, endpoint, day, func(*book.Account, []book.Credit) {})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return err
}

// CreateKey creates a key.
func (s *Store) CreateKey(ctx context.Context, key store.Key, hash token.Hash) error {
	return s.ChangeOne(ctx, key.CreatedAt, key.Account, func(a *book.Account) error { return a.Create(book.Key{Key: key, Hash: hash}) })
}

// ListKeys lists the keys of an account.
func (s *Store) ListKeys(ctx context.Context, account string) ([]store.Key, error) {
	keys, err := s.Keys(ctx, account)
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return keys, err
}

// FindKey returns the key with an id, of any account, or store.ErrNotFound.
func (s *Store) FindKey(ctx context.Context, id string) (store.Key, error) {
	account, err := s.HolderOfKey(ctx, id)
	if err != nil {
		return store.Key{}, err
	}
	return s.Key(ctx, account, id)
}

// ChangeKey changes a key.
func (s *Store) ChangeKey(ctx context.Context, account, id string, at time.Time, change func(*store.Key) error) (changed store.Key, err error) {
	err = s.ChangeOne(ctx, at, account, func(a *book.Account) (err error) {
		changed, err = a.ChangeKey(id, at, change)
		return err
	})
	if errors.Is(err, store.ErrTokenTaken) {
		err = store.ErrNotFound // another account has got the token of a key that has just expired
	}
	if err != nil {
		return store.Key{}, err
	}
	return changed, nil
}

// RevokeKey revokes a key.
func (s *Store) RevokeKey(ctx context.Context, account, id string, at time.Time) error {
	return s.ChangeOne(ctx, at, account, func(a *book.Account) error { return a.Revoke(id, at) })
}

// EndLogins revokes all login tokens.
func (s *Store) EndLogins(ctx context.Context, account string, at time.Time) error {
	return s.ChangeOne(ctx, at, account, func(a *book.Account) error { return a.EndLogins(at) })
}

// RotateKey replaces a key.
func (s *Store) RotateKey(ctx context.Context, account, id string, next store.Key, hash token.Hash, oldEnds time.Time) (rotated store.Key, err error) {
	err = s.ChangeOne(ctx, next.CreatedAt, account, func(a *book.Account) (err error) {
		rotated, err = a.Rotate(id, book.Key{Key: next, Hash: hash}, oldEnds)
		return err
	})
	if err != nil {
		return store.Key{}, err
	}
	return rotated, nil
}

// AddEntries records changes of accounts one by one. It creates the accounts.
func (s *Store) AddEntries(ctx context.Context, entries ...store.Entry) error {
	for _, e := range entries {
		err := s.ChangeOne(ctx, e.At, e.Account, func(a *book.Account) error {
			a.Exists = true
			a.Record(e)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AddRefused adds refused calls. The rows differ.
func (s *Store) AddRefused(ctx context.Context, rows []store.Refused) error {
	days := map[calendar.Day]book.RefusedCalls{}
	for _, row := range rows {
		if days[row.Day] == nil {
			days[row.Day] = book.RefusedCalls{}
		}
		calls := row.Calls
		row.Calls = 0
		days[row.Day][row] = calls
	}
	behind := &book.Behind{Engine: s.Engine, Every: time.Hour, Most: 1}
	for day, calls := range days {
		behind.Add(book.RefusedSpace(day), func(book.Part, bool) book.Part { return calls })
	}
	return behind.Close(ctx)
}

// unrecorded makes no entry of a key that is imported.
func unrecorded(*book.Account, *book.Key) {}
