package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// countsOfAccounts: the counts of some accounts on a range of days are read,
// whichever accounts and days are asked for together.
func (s *suite) countsOfAccounts() {
	s.account("acc_1", "acc_10", "acc_2", "acc_3", "acc_4")
	old := s.today - 60
	var want []store.StoredCount
	for _, c := range []struct {
		account, endpoint string
		cost              int64
	}{{"acc_1", "convert", 5}, {"acc_1", "rates", 1}, {"acc_10", "convert", 2}, {"acc_3", "rates", 7}} {
		for _, day := range []calendar.Day{s.today, s.today - 1, old} {
			s.takeList(costing(on(s.call(c.account, c.endpoint), day), c.cost), nil, true)
			want = append(want, store.StoredCount{Account: c.account, Count: store.Count{Day: day, Endpoint: c.endpoint, Used: c.cost}})
		}
	}
	ofKey := s.call("acc_4", "convert")
	ofKey.Key = "key_1"
	s.takeList(ofKey, nil, true)
	s.must(s.store.ResetCounts(s.Context(), "acc_4", "", s.today)) // also that of the account
	want = append(want, store.StoredCount{Account: "acc_4", Key: store.Credited, Count: store.Count{Day: s.today, Endpoint: "convert", Used: 1}})
	s.takeList(s.call("acc_2", "rates"), nil, true)
	s.must(s.store.DeleteAccount(s.Context(), "acc_2"))
	for range 2 {
		for _, days := range [][2]calendar.Day{
			{s.today, s.today}, {s.today - 1, s.today - 1}, {old, old}, {s.today - 1, s.today}, {old, s.today - 1}, {old - 40, s.today},
			{old - 1, old - 1}, {old + 1, s.today - 2}, {s.today, s.today - 1},
		} {
			s.wantCounts(days[0], days[1], want)
		}
		s.restart()
	}
	s.takeList(ofKey, nil, true)
	want = append(want, store.StoredCount{Account: "acc_4", Count: store.Count{Day: s.today, Endpoint: "convert", Used: 1}})
	s.wantCounts(old, s.today, want)
}

// wantCounts reads those of the counts that are of the days from first to
// last, for several numbers of accounts at once.
func (s *suite) wantCounts(first, last calendar.Day, want []store.StoredCount) {
	s.Helper()
	order := func(a, b store.StoredCount) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Endpoint, b.Endpoint))
	}
	want = slices.DeleteFunc(slices.Clone(want), func(c store.StoredCount) bool { return c.Day < first || last < c.Day })
	slices.SortFunc(want, order)
	accounts, err := s.store.ListAccounts(s.Context(), "", 100)
	s.must(err)
	for size := 1; size <= len(accounts); size++ {
		got, err := s.store.CountsOfAccounts(s.Context(), nil, first, last)
		s.must(err)
		for some := range slices.Chunk(accounts, size) {
			ids := make([]string, len(some))
			for i := range some {
				ids[i] = some[i].ID
			}
			found, err := s.store.CountsOfAccounts(s.Context(), ids, first, last)
			s.must(err)
			got = append(got, found...)
		}
		slices.SortFunc(got, order)
		if !slices.Equal(got, want) {
			s.Errorf("counts from %s to %s, %d accounts at once:\n got %+v\nwant %+v", first, last, size, got, want)
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
