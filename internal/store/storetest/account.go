package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// accountChanges: a change gets the account as it is, and an error of it
// changes nothing. An account stays as old as it is, and so does what it used.
func (s *suite) accountChanges() {
	errAborted := errors.New("aborted")
	want := store.Account{ID: "acc_1"}
	for i, c := range []struct {
		err  error
		left store.Account
	}{
		{errAborted, store.Account{Plan: "starter"}}, {nil, store.Account{Plan: "starter", Label: "\x00\"{}ß", CreatedAt: s.now}},
		{errAborted, store.Account{Plan: "business"}}, {nil, store.Account{Plan: "business", Disabled: true, CreatedAt: s.now.Add(time.Hour)}},
		{nil, store.Account{Plan: "business"}}, {nil, store.Account{Plan: "business"}},
	} {
		got, err := s.store.ChangeAccount(s.Context(), "acc_1", func(a *store.Account, exists bool) error {
			if exists != (i > 1) || !same(*a, want) {
				s.Errorf("change %d gets %+v, exists %v, want %+v", i, *a, exists, want)
			}
			*a = c.left
			return c.err
		})
		if err != c.err { // it must be the same error
			s.Errorf("change %d: got error %v, want %v", i, err, c.err)
		}
		if err == nil {
			want = c.left
			want.ID, want.CreatedAt = "acc_1", s.now
			if !same(got, want) {
				s.Errorf("change %d: got %+v, want %+v", i, got, want)
			}
			s.take(s.call("acc_1", "convert"), 10, s.used(s.call("acc_1", "convert"))+1, true)
		}
		read, err := s.store.Account(s.Context(), "acc_1")
		if want.Plan == "" {
			s.wantError("after an aborted creation", err, store.ErrNotFound)
		} else if s.must(err); !same(read, want) {
			s.Errorf("account after change %d: got %+v, want %+v", i, read, want)
		}
	}
	s.wantUsed(s.call("acc_1", "convert"), 4)
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
