package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// PutAccount creates an account or sets its plan and whether it is
// disabled, for tests that do not compare it with the stored one.
func PutAccount(ctx context.Context, accounts store.Accounts, want store.Account) (store.Account, error) {
	return accounts.ChangeAccount(ctx, want.ID, func(account *store.Account, _ bool) error {
		*account = want
		return nil
	})
}

func (s *suite) accounts() {
	_, err := s.store.Account(s.Context(), "acc_1")
	s.wantError("an unknown account", err, store.ErrNotFound)
	s.wantError("deleting an unknown account", s.store.DeleteAccount(s.Context(), "acc_1"), store.ErrNotFound)

	want := store.Account{ID: "acc_1", Plan: "starter", CreatedAt: s.now}
	put := func(account store.Account) {
		s.Helper()
		got, err := PutAccount(s.Context(), s.store, account)
		if err != nil || !same(got, want) {
			s.Errorf("put: got %+v, %v, want %+v", got, err, want)
		}
		if got, err = s.store.Account(s.Context(), want.ID); err != nil || !same(got, want) {
			s.Errorf("get: got %+v, %v, want %+v", got, err, want)
		}
	}
	put(want)
	put(want) // again changes nothing
	s.take(s.call("acc_1", "convert"), 10, 1, true)

	// It stays as old as it is, and so does what it used.
	want.Plan, want.Disabled = "business", true
	put(store.Account{ID: "acc_1", Plan: "business", Disabled: true, CreatedAt: s.now.Add(time.Hour)})
	s.take(s.call("acc_1", "convert"), 10, 2, true)
}

// accountChanges checks what a change gets, and what it cannot change.
func (s *suite) accountChanges() {
	set := func(want error, exists bool, old, left store.Account) (store.Account, error) {
		s.Helper()
		return s.store.ChangeAccount(s.Context(), "acc_1", func(account *store.Account, got bool) error {
			if got != exists || !same(*account, old) {
				s.Errorf("got %+v, exists %v, want %+v, %v", *account, got, old, exists)
			}
			*account = left
			return want
		})
	}
	errAborted := errors.New("aborted")
	absent := store.Account{ID: "acc_1"}
	made := store.Account{ID: "acc_1", Plan: "starter", CreatedAt: s.now}
	_, err := set(errAborted, false, absent, made)
	if err != errAborted { // it must be the same error
		s.Errorf("an aborted creation: got error %v", err)
	}
	_, err = s.store.Account(s.Context(), "acc_1")
	s.wantError("after an aborted creation", err, store.ErrNotFound)

	if got, err := set(nil, false, absent, made); err != nil || !same(got, made) {
		s.Errorf("creation: got %+v, %v", got, err)
	}
	_, err = set(errAborted, true, made, store.Account{ID: "acc_1", Plan: "business"})
	s.wantError("an aborted change", err, errAborted)
	if got, err := set(nil, true, made, made); err != nil || !same(got, made) {
		s.Errorf("no change: got %+v, %v", got, err)
	}
	// The id and the time of creation do not change.
	if got, err := set(nil, true, made, store.Account{ID: "acc_2", Plan: "starter", CreatedAt: s.now.Add(time.Hour)}); err != nil || !same(got, made) {
		s.Errorf("another id and time: got %+v, %v", got, err)
	}
	_, err = s.store.Account(s.Context(), "acc_2")
	s.wantError("the other id", err, store.ErrNotFound)
}

func (s *suite) accountPages() {
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprintf("acc.%d@example.com", i))
	}
	// Ids of which one begins another, and both cases.
	want = append(want, "a", "a.", "aa", "A", "Z_-@.9", "0")
	s.account(want...)
	slices.Sort(want)
	for _, size := range []int{1, 7, len(want), 100} {
		var got []string
		for _, account := range pages(s, size, func(after store.Account) ([]store.Account, error) {
			return s.store.ListAccounts(s.Context(), after.ID, size)
		}) {
			got = append(got, account.ID)
		}
		if !slices.Equal(got, want) {
			s.Errorf("pages of %d: got %v, want %v", size, got, want)
		}
	}
	// After an id that does not exist.
	page, err := s.store.ListAccounts(s.Context(), "acc.11@", 1)
	if s.must(err); len(page) != 1 || page[0].ID != "acc.11@example.com" {
		s.Errorf("after an unknown id: got %+v", page)
	}
}

// pages reads a list in pages of a size. next returns the page after an element,
// or the first one after the zero E.
func pages[E any](s *suite, size int, next func(after E) ([]E, error)) (list []E) {
	s.Helper()
	for after := *new(E); ; after = list[len(list)-1] {
		page, err := next(after)
		if s.must(err); len(page) > size {
			s.Fatalf("a page of %d, want at most %d", len(page), size)
		}
		if list = append(list, page...); len(page) < size {
			return list
		}
	}
}
