package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// overrides: the overrides of an account are in force for the next Grant of
// each of its keys, and kept. The store keeps expired ones, too.
func (s *suite) overrides() {
	s.account("acc_1", "acc_2")
	key, other := s.newKey("acc_1", "ci"), s.newKey("acc_2", "ci")
	s.create(key)
	s.create(other)
	want := []store.Override{
		{Limit: store.Limit{Endpoint: "convert", Period: store.Month, Max: 5000}, ExpiresAt: s.now.Add(time.Hour), Reason: "a trial, “größer”", CreatedAt: s.now},
		{Limit: store.Limit{Endpoint: store.All, Period: store.Day, Max: store.Unlimited}, CreatedAt: s.now.Add(-time.Hour)},
		{Limit: store.Limit{Endpoint: "rates", Period: store.Second, Max: 1}, ExpiresAt: s.now.Add(-time.Minute), CreatedAt: s.now.Add(-time.Hour)},
	}
	put := func(overrides []store.Override) {
		s.Helper()
		account, err := s.store.ChangeAccount(s.Context(), "acc_1", func(account *store.Account, _ bool) error {
			account.Overrides = slices.Clone(overrides)
			return nil
		})
		if s.must(err); !same(account.Overrides, overrides) {
			s.Errorf("change: got %+v, want %+v", account.Overrides, overrides)
		}
	}
	check := func(want []store.Override) {
		s.Helper()
		account, err := s.store.Account(s.Context(), "acc_1")
		s.must(err)
		list, err := s.store.ListAccounts(s.Context(), "", 1)
		s.must(err)
		grant, err := s.store.Grant(s.Context(), hashOf(key.ID), s.now)
		s.must(err)
		for _, got := range [][]store.Override{account.Overrides, list[0].Overrides, grant.Overrides} {
			if !same(got, want) {
				s.Errorf("overrides: got %+v, want %+v", got, want)
			}
		}
		s.wantGrant(hashOf(other.ID), other, "starter") // it has none
	}
	put(want)
	for range 2 {
		check(want)
		s.restart()
	}

	// A change that fails changes nothing, also if it writes to the list.
	_, err := s.store.ChangeAccount(s.Context(), "acc_1", func(account *store.Account, _ bool) error {
		account.Overrides[0].Max = 1
		return errors.New("aborted")
	})
	if err == nil {
		s.Error("an aborted change: got no error")
	}
	check(want)
	grant, err := s.store.Grant(s.Context(), hashOf(key.ID), s.now)
	s.must(err)
	_, err = s.store.ChangeAccount(s.Context(), "acc_1", func(account *store.Account, _ bool) error {
		account.Overrides[0].Max = 1
		return nil
	})
	if s.must(err); !same(grant.Overrides, want) {
		s.Errorf("a change of the account has changed an earlier grant: %+v", grant.Overrides)
	}

	put(nil)
	check(nil)
	var most []store.Override
	for i := range store.MaxOverrides {
		most = append(most, store.Override{
			Limit:  store.Limit{Endpoint: fmt.Sprintf("e%02d%s", i, strings.Repeat("x", 60)), Period: store.Month, Max: store.Unlimited},
			Reason: strings.Repeat("\U0001F600", 200), ExpiresAt: s.now.Add(time.Hour), CreatedAt: s.now,
		})
	}
	put(most)
	s.restart()
	check(most)
}
