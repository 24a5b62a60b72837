package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// countsOfDay: the counts of a day are those of all accounts, in order and in
// pages.
func (s *suite) countsOfDay() {
	s.account("acc_1", "acc_10", "acc_2", "acc_3", "acc_4")
	old := s.today - 60
	var want []store.AccountCount
	for _, c := range []struct {
		account, endpoint string
		cost              int64
	}{{"acc_1", "convert", 5}, {"acc_1", "rates", 1}, {"acc_10", "convert", 2}, {"acc_3", "rates", 7}} {
		for _, day := range []calendar.Day{s.today, s.today - 1, old} {
			s.takeList(costing(on(s.call(c.account, c.endpoint), day), c.cost), nil, true)
		}
		want = append(want, store.AccountCount{Account: c.account, Count: store.Count{Endpoint: c.endpoint, Used: c.cost}})
	}
	ofKey := s.call("acc_4", "convert")
	ofKey.Key = "key_1"
	s.takeList(ofKey, nil, true)
	s.must(s.store.ResetCounts(s.Context(), "acc_4", "", s.today)) // also that of the account
	s.takeList(s.call("acc_2", "rates"), nil, true)
	s.must(s.store.DeleteAccount(s.Context(), "acc_2"))
	for range 2 {
		for _, day := range []calendar.Day{s.today, s.today - 1, old} {
			s.wantCountsOfDay(day, want)
		}
		s.wantCountsOfDay(old-1, nil)
		s.restart()
	}
	s.takeList(ofKey, nil, true)
	want = append(want, store.AccountCount{Account: "acc_4", Count: store.Count{Endpoint: "convert", Used: 1}})
	s.wantCountsOfDay(s.today, want)
}

// wantCountsOfDay reads the counts in pages of several sizes.
func (s *suite) wantCountsOfDay(day calendar.Day, want []store.AccountCount) {
	s.Helper()
	want = slices.Clone(want)
	for i := range want {
		want[i].Day = day
	}
	for _, limit := range []int{1, 2, 3, 100} {
		var got []store.AccountCount
		for after, pages := "", 0; after != "" || pages == 0; pages++ {
			page, next, err := s.store.CountsOfDay(s.Context(), day, after, limit)
			s.must(err)
			accounts := map[string]bool{}
			for _, c := range page {
				accounts[c.Account] = true
			}
			if next != "" && next <= after || len(accounts) > limit {
				s.Fatalf("page after %q: %d accounts, next %q", after, len(accounts), next)
			}
			got, after = append(got, page...), next
		}
		if !slices.Equal(got, want) {
			s.Errorf("counts of %s, pages of %d:\n got %+v\nwant %+v", day, limit, got, want)
		}
	}
}

// findKey: a key is found without its account, also when it is revoked.
func (s *suite) findKey() {
	s.account("acc_1", "acc_2", "acc_3")
	_, err := s.store.FindKey(s.Context(), "key_acc_1_ci")
	s.wantError("an unknown key", err, store.ErrNotFound)
	for _, account := range []string{"acc_1", "acc_2", "acc_3"} {
		for _, name := range []string{"ci", "web"} {
			s.create(s.newKey(account, name))
		}
	}
	s.must(s.store.RevokeKey(s.Context(), "acc_2", "key_acc_2_web", s.now))
	s.must(s.store.DeleteAccount(s.Context(), "acc_3"))
	for _, id := range []string{"acc_1_ci", "acc_1_web", "acc_2_ci", "acc_2_web"} {
		want, err := s.store.Key(s.Context(), id[:5], "key_"+id)
		s.must(err)
		if got, err := s.store.FindKey(s.Context(), want.ID); err != nil || !same(got, want) {
			s.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	for _, id := range []string{"key_acc_3_ci", "key_acc_1", "", "key_acc_1_ci "} {
		_, err := s.store.FindKey(s.Context(), id)
		s.wantError(fmt.Sprintf("key %q", id), err, store.ErrNotFound)
	}
}

// totals counts accounts, and the keys and login tokens that are live.
func (s *suite) totals() {
	s.account("acc_1", "acc_2", "acc_3")
	for _, account := range []string{"acc_1", "acc_2", "acc_3"} {
		for _, name := range []string{"ci", "web", "revoked"} {
			s.create(s.newKey(account, name))
		}
		s.must(s.store.RevokeKey(s.Context(), account, "key_"+account+"_revoked", s.now))
	}
	for name, until := range map[string]time.Duration{"login": time.Hour, "expired": -time.Minute} {
		k := s.newKey("acc_1", name)
		k.Kind, k.CreatedAt, k.ExpiresAt = token.Login, s.now.Add(-time.Hour), s.now.Add(until)
		s.create(k)
	}
	s.must(s.store.DeleteAccount(s.Context(), "acc_3"))
	s.restart()
	want := store.Totals{Accounts: 2, LiveKeys: 5}
	if got, err := s.store.Totals(s.Context()); err != nil || got != want {
		s.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}
