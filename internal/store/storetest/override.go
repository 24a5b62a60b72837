package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// overrides: the overrides of an account are in force for the next Grant of
// each of its keys, and kept, also expired ones. A change does not change an
// earlier grant.
func (s *suite) overrides() {
	s.account("acc_1", "acc_2")
	key, other := s.newKey("acc_1", "ci"), s.newKey("acc_2", "ci")
	s.create(key)
	s.create(other)
	grant := func() []store.Override {
		s.Helper()
		grant, err := s.store.Grant(s.Context(), hashOf(key.ID), s.now)
		s.must(err)
		return overridesOf(grant)
	}
	change := func(change func(a *store.Account)) {
		s.Helper()
		_, err := s.store.ChangeAccount(s.Context(), "acc_1", func(a *store.Account, _ bool) error { change(a); return nil })
		s.must(err)
	}
	some := []store.Override{
		{Limit: store.Limit{Endpoint: store.All, Period: store.Day, Max: store.Unlimited}, Reason: "a trial", CreatedAt: s.now.Add(-time.Hour)},
		{Limit: store.Limit{Endpoint: "rates", Period: store.Second, Max: 1}, ExpiresAt: s.now.Add(-time.Minute), CreatedAt: s.now.Add(-time.Hour)},
	}
	var most []store.Override
	for i := range store.MaxOverrides {
		most = append(most, store.Override{
			Limit:  store.Limit{Endpoint: fmt.Sprintf("e%02d%s", i, strings.Repeat("x", 60)), Period: store.Month, Max: store.Unlimited},
			Reason: strings.Repeat("\U0001F600", 200), ExpiresAt: s.now.Add(time.Hour), CreatedAt: s.now,
		})
	}
	for _, want := range [][]store.Override{some, nil, most} {
		change(func(a *store.Account) { a.Overrides = slices.Clone(want) })
		for range 2 {
			account, err := s.store.Account(s.Context(), "acc_1")
			s.must(err)
			list, err := s.store.ListAccounts(s.Context(), "", 1)
			s.must(err)
			for _, got := range [][]store.Override{account.Overrides, list[0].Overrides, grant()} {
				if !same(got, want) {
					s.Errorf("overrides: got %+v, want %+v", got, want)
				}
			}
			s.wantGrant(hashOf(other.ID), other, "starter") // it has none
			s.restart()
		}
	}
	granted := grant()
	change(func(a *store.Account) { a.Overrides[0].Max = 1 })
	if !same(granted, most) || grant()[0].Max != 1 {
		s.Errorf("a change of the account has changed an earlier grant: %+v", granted[0])
	}
}

func overridesOf(g store.Grant) []store.Override {
	if g.Terms == nil {
		return nil
	}
	return g.Terms.Overrides
}
