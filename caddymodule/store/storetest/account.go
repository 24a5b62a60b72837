package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

func (s *suite) accounts() {
	_, err := s.store.Account(s.Context(), "acc_1")
	s.wantError("an unknown account", err, store.ErrNotFound)
	s.wantError("deleting an unknown account", s.store.DeleteAccount(s.Context(), "acc_1"), store.ErrNotFound)

	want := store.Account{ID: "acc_1", Plan: "starter", CreatedAt: s.now}
	put := func(account store.Account) {
		s.Helper()
		got, err := s.store.PutAccount(s.Context(), account)
		if err != nil || got != want {
			s.Errorf("put: got %+v, %v, want %+v", got, err, want)
		}
		if got, err = s.store.Account(s.Context(), want.ID); err != nil || got != want {
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
		after := ""
		for {
			page, err := s.store.ListAccounts(s.Context(), after, size)
			s.must(err)
			if len(page) > size {
				s.Fatalf("a page of %d accounts, want at most %d", len(page), size)
			}
			if len(page) == 0 {
				break
			}
			for _, a := range page {
				got = append(got, a.ID)
			}
			after = got[len(got)-1]
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
