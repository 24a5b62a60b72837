package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

func dayShift(n int32) calendar.Day { return calendar.Day(n) }

// labels: an account keeps its label.
func (s *suite) labels() {
	want := store.Account{ID: "acc_1", Plan: "starter", Label: "Grüße, Ada", CreatedAt: s.now, Overrides: []store.Override{{
		Limit: store.Limit{Endpoint: "convert", Period: store.Month, Max: 5}, Reason: "sales", CreatedAt: s.now,
	}}}
	_, err := PutAccount(s.Context(), s.store, want)
	s.must(err)
	s.restart()
	if got, err := s.store.Account(s.Context(), "acc_1"); err != nil || !same(got, want) {
		s.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := s.store.ListAccounts(s.Context(), "", 2); err != nil || len(got) != 1 || !same(got[0], want) {
		s.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// manyAccounts: a batch changes what can be changed, and each account has its
// own error.
func (s *suite) manyAccounts() {
	s.account("acc_7")
	errRefused := errors.New("refused")
	ids := make([]string, store.MaxBatch)
	for i := range ids {
		ids[i] = fmt.Sprintf("acc_%d", i)
	}
	accounts, errs := s.store.ChangeAccounts(s.Context(), ids, func(i int, account *store.Account, exists bool) error {
		if exists != (i == 7) || account.ID != ids[i] {
			s.Errorf("account %d is %+v, exists %t", i, *account, exists)
		}
		if i == 3 {
			return errRefused
		}
		account.Plan, account.CreatedAt = "business", s.now
		return nil
	})
	s.restart()
	for i, id := range ids {
		got, err := s.store.Account(s.Context(), id)
		switch {
		case i == 3:
			s.wantError("the refused one", errs[i], errRefused)
			s.wantError("the refused one", err, store.ErrNotFound)
		case errs[i] != nil || err != nil || got.Plan != "business" || !same(got, accounts[i]):
			s.Fatalf("account %d: stored %+v, %v; got %+v, %v", i, got, err, accounts[i], errs[i])
		}
	}
}

// countsOfDay: pages have the counts of all accounts, and none of keys.
func (s *suite) countsOfDay() {
	const accounts = 7
	old := s.today - 20
	want := map[calendar.Day][]store.AccountCount{}
	for n := range accounts {
		id := fmt.Sprintf("acc_%d", n)
		s.account(id)
		for _, day := range []calendar.Day{s.today, old} {
			for e, endpoint := range []string{"convert", "rates"} {
				if n == 2 || n == 4 && e == 0 {
					continue
				}
				call := s.call(id, endpoint)
				call.Day, call.Cost = day, int64(10*n+e+1)
				call.Key = "key_" + id
				s.takeList(call, nil, true)
				want[day] = append(want[day], store.AccountCount{Account: id, Count: store.Count{Day: day, Endpoint: endpoint, Used: call.Cost}})
			}
		}
	}
	check := func() {
		s.Helper()
		for _, day := range []calendar.Day{s.today, old, s.today - 3} {
			for _, limit := range []int{1, 3, 7, 100} {
				var got []store.AccountCount
				for after := ""; ; {
					page, next, err := s.store.CountsOfDay(s.Context(), day, after, limit)
					s.must(err)
					got = append(got, page...)
					if after = next; next == "" {
						break
					}
				}
				if !same(got, want[day]) {
					s.Errorf("day %s by %d:\n got %+v\nwant %+v", day, limit, got, want[day])
				}
			}
		}
	}
	check()
	s.restart()
	check()
}

// findKey finds a key of any account.
func (s *suite) findKey() {
	s.account("acc_1", "acc_2")
	want := s.newKey("acc_2", "ci")
	s.create(s.newKey("acc_1", "ci"))
	s.create(want)
	got, err := s.store.FindKey(s.Context(), want.ID)
	s.must(err)
	s.wantKey(got, want)
	for _, id := range []string{"", "ci", "key_acc_2_c", "unknown"} {
		_, err := s.store.FindKey(s.Context(), id)
		s.wantError("the key "+id, err, store.ErrNotFound)
	}
}

// totals counts accounts and live keys.
func (s *suite) totals() {
	want := func(accounts, keys int) {
		s.Helper()
		if got, err := s.store.Totals(s.Context()); err != nil || got != (store.Totals{Accounts: accounts, LiveKeys: keys}) {
			s.Errorf("got %+v, %v, want %d accounts and %d keys", got, err, accounts, keys)
		}
	}
	want(0, 0)
	s.account("acc_1", "acc_2", "acc_3")
	for _, id := range []string{"acc_1", "acc_2", "acc_3"} {
		s.create(s.newKey(id, "a"))
		s.create(s.newKey(id, "b"))
	}
	login := s.newKey("acc_1", "login")
	login.Kind, login.ExpiresAt = token.Login, s.now.Add(time.Hour)
	s.create(login)
	expired := s.newKey("acc_1", "expired")
	expired.ExpiresAt = s.now.Add(-time.Second)
	s.create(expired)
	want(3, 7)
	s.must(s.store.RevokeKey(s.Context(), "acc_1", "key_acc_1_a", s.now))
	s.must(s.store.EndLogins(s.Context(), "acc_1", s.now))
	s.must(s.store.DeleteAccount(s.Context(), "acc_3"))
	want(2, 3)
	s.restart()
	want(2, 3)
}
