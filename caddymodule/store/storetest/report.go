package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// refused: calls are added up by day, account, endpoint and code, and listed
// in order, in pages, of some days and of one account.
func (s *suite) refused() {
	row := func(day calendar.Day, account, endpoint, code string, calls int64) store.Refused {
		return store.Refused{Day: s.today - day, Account: account, Endpoint: endpoint, Code: code, Calls: calls}
	}
	want := []store.Refused{
		row(30, "acc_1", "convert", "quota_exceeded", 3),
		row(1, "", "", "unknown_endpoint", 5), row(1, "", "convert", "invalid_token", 7),
		row(1, "acc_1", "convert", "quota_exceeded", 11), row(1, "acc_1", "convert", "rate_exceeded", 1),
		row(1, "acc_1", "rates", "quota_exceeded", 1), row(1, "acc_10", "convert", "quota_exceeded", 1),
		row(0, "acc_1", "convert", "quota_exceeded", 1<<40),
	}
	s.must(s.store.AddRefused(s.Context(), nil))
	for range 2 {
		rows := slices.Clone(want)
		slices.Reverse(rows)
		s.must(s.store.AddRefused(s.Context(), rows))
	}
	s.restart()
	for i := range want {
		want[i].Calls *= 2
	}
	s.wantRefused("", 400, 0, want)
	s.wantRefused("", 29, 1, want[1:7])
	s.wantRefused("", 29, 2, nil)
	s.wantRefused("acc_1", 400, 0, []store.Refused{want[0], want[3], want[4], want[5], want[7]})
	s.wantRefused("acc_10", 400, 0, want[6:7])
	s.wantRefused("acc_2", 400, 0, nil)
}

// wantRefused reads rows in pages of several sizes.
func (s *suite) wantRefused(account string, first, last calendar.Day, want []store.Refused) {
	s.Helper()
	for _, limit := range []int{1, 2, 100} {
		got := pages(s, limit, func(after store.Refused) ([]store.Refused, error) {
			return s.store.ListRefused(s.Context(), account, s.today-first, s.today-last, after, limit)
		})
		if !slices.Equal(got, want) {
			s.Errorf("refused calls of %q, pages of %d:\n got %+v\nwant %+v", account, limit, got, want)
		}
	}
}

// refusedUnderConcurrency: concurrent additions to the same rows add up.
func (s *suite) refusedUnderConcurrency() {
	const callers, rounds = 8, 20
	s.together(callers, func(int) error {
		for range rounds {
			err := s.store.AddRefused(s.Context(), []store.Refused{
				{Day: s.today, Account: "acc_1", Code: "quota_exceeded", Calls: 2}, {Day: s.today, Account: "acc_2", Code: "quota_exceeded", Calls: 3},
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	s.wantRefused("", 0, 0, []store.Refused{
		{Day: s.today, Account: "acc_1", Code: "quota_exceeded", Calls: 2 * callers * rounds},
		{Day: s.today, Account: "acc_2", Code: "quota_exceeded", Calls: 3 * callers * rounds},
	})
}

// entry returns an audit entry some seconds after the time of the test.
func (s *suite) entry(account string, seconds int) store.Entry {
	return store.Entry{
		At: s.now.Add(time.Duration(seconds) * time.Second), ActorKind: "application", ActorID: "shop", Action: "key.create",
		Account: account, Target: fmt.Sprint("key_", seconds), After: json.RawMessage(`{"name":"ci \"1\""}`),
	}
}

// audit: entries get ascending ids and are listed in that order, in pages,
// since a time and of one account.
func (s *suite) audit() {
	s.wantEntries("", time.Time{}, nil)
	s.must(s.store.AddEntries(s.Context(), nil))
	person := store.Entry{At: s.now.Add(-time.Hour), ActorKind: "person", Action: "account.change", Account: "acc_1", Before: json.RawMessage(`{}`)}
	var want []store.Entry
	for _, entries := range [][]store.Entry{
		{person},
		{s.entry("acc_1", -20), s.entry("acc_2", -20), s.entry("acc_1", -20)}, // in a millisecond
		{s.entry("acc_1", -20)},
		{s.entry("", -10), s.entry("acc_2", -9)},
	} {
		s.must(s.store.AddEntries(s.Context(), entries))
		want = append(want, entries...)
		s.restart()
	}
	s.wantAscending(want)
	s.wantEntries("", time.Time{}, want)
	s.wantEntries("", s.now.Add(-time.Minute), want[1:])
	s.wantEntries("", s.now.Add(-10*time.Second), want[5:])
	s.wantEntries("", s.now.Add(time.Minute), nil)
	s.wantEntries("acc_2", time.Time{}, []store.Entry{want[2], want[6]})
	s.wantEntries("acc_1", s.now.Add(-time.Minute), []store.Entry{want[1], want[3], want[4]})
	s.wantEntries("acc_3", time.Time{}, nil)
}

// auditOfLateClock: entries after a clock went back follow those before, and a
// list since a time has those of both.
func (s *suite) auditOfLateClock() {
	var want []store.Entry
	for _, seconds := range []int{-10, -300, -200, -10, -9} {
		entries := []store.Entry{s.entry("acc_1", seconds), s.entry("acc_2", seconds)}
		s.must(s.store.AddEntries(s.Context(), entries))
		want = append(want, entries...)
		s.restart()
	}
	s.wantAscending(want)
	s.wantEntries("", time.Time{}, want)
	s.wantEntries("", s.now.Add(-200*time.Second), slices.Concat(want[:2], want[4:]))
	s.wantEntries("acc_2", s.now.Add(-10*time.Second), []store.Entry{want[1], want[7], want[9]})
}

// auditUnderConcurrency: each entry gets an id of its own.
func (s *suite) auditUnderConcurrency() {
	const callers, rounds = 8, 10
	s.together(callers, func(caller int) error {
		for i := range rounds {
			if err := s.store.AddEntries(s.Context(), []store.Entry{s.entry("acc_1", -caller), s.entry("acc_1", -i)}); err != nil {
				return err
			}
		}
		return nil
	})
	list, err := s.store.ListEntries(s.Context(), "", time.Time{}, store.EntryID{}, 1000)
	if err != nil || len(list) != callers*rounds*2 {
		s.Errorf("got %d entries, %v, want %d", len(list), err, callers*rounds*2)
	}
	s.wantAscending(list)
}

func (s *suite) wantAscending(list []store.Entry) {
	s.Helper()
	for i := range list {
		if id, err := store.ParseEntryID(list[i].ID.String()); err != nil || id != list[i].ID {
			s.Errorf("id %v is read as %v, %v", list[i].ID, id, err)
		}
		if i > 0 && list[i].ID.Compare(list[i-1].ID) <= 0 {
			s.Errorf("id %v follows %v", list[i].ID, list[i-1].ID)
		}
	}
}

// wantEntries reads entries in pages of several sizes, from the first and from
// the last one.
func (s *suite) wantEntries(account string, since time.Time, want []store.Entry) {
	s.Helper()
	backwards := slices.Clone(want)
	slices.Reverse(backwards)
	for name, c := range map[string]struct {
		list func(context.Context, string, time.Time, store.EntryID, int) ([]store.Entry, error)
		want []store.Entry
	}{
		"entries": {s.store.ListEntries, want}, "last entries": {s.store.LastEntries, backwards},
	} {
		for _, limit := range []int{1, 3, 100} {
			got := pages(s, limit, func(at store.Entry) ([]store.Entry, error) {
				return c.list(s.Context(), account, since, at.ID, limit)
			})
			if !slices.EqualFunc(got, c.want, func(a, b store.Entry) bool { return same(a, b) }) {
				s.Errorf("%s of %q since %v, pages of %d:\n got %+v\nwant %+v", name, account, since, limit, got, c.want)
			}
		}
	}
}
