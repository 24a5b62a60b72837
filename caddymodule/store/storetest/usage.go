package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// record returns an account's i-th call, one a second.
func (s *suite) record(account string, i int) store.Record {
	code := ""
	if i&1 == 1 {
		code = "quota_exceeded"
	}
	return store.Record{
		Account: account, Key: "key_1", KeyName: "ci", At: s.now.Add(time.Duration(i) * time.Second),
		Endpoint: "convert", Method: "GET", Path: fmt.Sprintf("/api/convert/EUR/%d/USD", i),
		Status: 200 + i&1*229, Code: code, Duration: time.Duration(i) * time.Microsecond,
	}
}

func (s *suite) wantRecent(account string, now time.Time, want []store.Record) {
	s.Helper()
	got, err := s.store.Recent(s.Context(), account, now)
	if err != nil || !slices.Equal(got, want) {
		s.Errorf("recent calls of %s: got %d, %v, %+v\nwant %d, %+v", account, len(got), err, got, len(want), want)
	}
}

// recent: the last calls of each account are kept. Recent includes what was
// recorded before it is called.
func (s *suite) recent() {
	s.account("acc_1", "acc_2", "acc_3")
	s.wantRecent("acc_1", s.now, nil)
	var want []store.Record
	for i := range store.MaxRecent*2 + 7 {
		r := s.record("acc_1", i)
		s.store.Record(r)
		want = slices.Insert(want, 0, r)
		if i%37 == 0 {
			s.wantRecent("acc_1", r.At, want[:min(len(want), store.MaxRecent)])
		}
		if i < 3 {
			s.store.Record(s.record("acc_2", i))
		}
	}
	want = want[:store.MaxRecent]
	last := want[0].At
	s.wantRecent("acc_1", last, want)
	s.wantRecent("acc_2", last, []store.Record{s.record("acc_2", 2), s.record("acc_2", 1), s.record("acc_2", 0)})
	s.wantRecent("acc_3", last, nil)

	// Calls older than RecentFor are not listed.
	s.wantRecent("acc_2", s.record("acc_2", 1).At.Add(store.RecentFor),
		[]store.Record{s.record("acc_2", 2), s.record("acc_2", 1)})
	s.wantRecent("acc_2", last.Add(store.RecentFor), nil)

	// Of a long path, the beginning is kept, without a part of a character.
	long := s.record("acc_3", 0)
	long.Path = "/" + strings.Repeat("ü", 1<<19)
	s.store.Record(long)
	long.Path = "/" + strings.Repeat("ü", (store.MaxPath-1)/2)
	s.wantRecent("acc_3", long.At, []store.Record{long})
}

// recentRefused: a client that is refused in a loop displaces at most half of
// the list, however many of its calls are written at once. Later calls displace
// the oldest ones.
func (s *suite) recentRefused() {
	s.account("acc_1")
	var all []store.Record
	add := func(code string, calls int) {
		for range calls {
			r := s.record("acc_1", len(all))
			r.Code = code
			s.store.Record(r)
			all = append(all, r)
		}
	}
	want := func(parts ...[]store.Record) {
		s.Helper()
		list := slices.Concat(parts...)
		slices.Reverse(list)
		s.wantRecent("acc_1", all[len(all)-1].At, list)
	}
	const half = store.MaxRecentRefused
	add("quota_exceeded", half+1)
	want(all[1:])
	add("", store.MaxRecent)
	want(all[half+1:])
	admitted := all[len(all)-half:]
	for _, burst := range []int{1, 2, half, 3 * store.MaxRecent} {
		add("quota_exceeded", burst)
		_, err := s.store.Recent(s.Context(), "acc_1", s.now) // nothing waits to be written
		s.must(err)
	}
	want(admitted, all[len(all)-half:])
	add("", 10)
	want(admitted[10:], all[len(all)-10-half:])
}

// recentOfDeleted: a call of a deleted account is not recorded, also not for
// the next account with that id.
func (s *suite) recentOfDeleted() {
	s.account("acc_1")
	key := s.newKey("acc_1", "ci")
	granted, err := s.store.Grant(s.Context(), s.create(key), s.now)
	s.must(err)
	late := s.record("acc_1", 0)
	late.Handle = granted.Handle
	s.store.Record(late)
	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	s.account("acc_1")
	if granted.Handle != 0 { // without handles, the store cannot tell the accounts apart
		s.store.Record(late)
	}
	s.wantRecent("acc_1", s.now, nil)

	granted, err = s.store.Grant(s.Context(), s.create(key), s.now)
	s.must(err)
	late.Handle = granted.Handle
	s.store.Record(late)
	late.Handle = 0
	s.wantRecent("acc_1", s.now, []store.Record{late})
}

// recentOrder: the calls are sorted by their time, not by when they ended.
func (s *suite) recentOrder() {
	s.account("acc_1")
	for _, i := range []int{3, 1, 2, 0} {
		s.store.Record(s.record("acc_1", i))
	}
	s.wantRecent("acc_1", s.now.Add(time.Minute), []store.Record{
		s.record("acc_1", 3), s.record("acc_1", 2), s.record("acc_1", 1), s.record("acc_1", 0),
	})

	// No concurrent call is lost.
	const callers, each = 8, 10
	s.together(callers, func(caller int) error {
		for i := range each {
			s.store.Record(s.record("acc_1", 10+caller*each+i))
		}
		return nil
	})
	got, err := s.store.Recent(s.Context(), "acc_1", s.now.Add(time.Hour))
	if s.must(err); len(got) != 4+callers*each {
		s.Fatalf("recent calls: got %d, want %d", len(got), 4+callers*each)
	}
	if !slices.IsSortedFunc(got, func(a, b store.Record) int { return b.At.Compare(a.At) }) {
		s.Errorf("recent calls are not newest first: %+v", got)
	}
}

func (s *suite) counts() {
	s.account("acc_1", "acc_10")
	take := func(call store.Call, n int64) {
		for i := range n {
			s.take(call, 100, i+1, true)
		}
	}
	day := func(endpoint string, ago calendar.Day) store.Call {
		return store.Call{Account: "acc_1", Endpoint: endpoint, Day: s.today - ago}
	}
	take(day("convert", 0), 3)
	take(day("rates", 0), 1)
	take(day("convert", 1), 2)
	take(day("convert", 29), 4)
	take(day("convert", 30), 5)
	take(s.call("acc_10", "convert"), 7)
	take(day("given back", 0), 1)
	s.must(s.store.GiveBack(s.Context(), day("given back", 0)))

	got, err := s.store.Counts(s.Context(), "acc_1", "", s.today-29, s.today)
	s.must(err)
	want := []store.Count{
		{Day: s.today - 29, Endpoint: "convert", Used: 4},
		{Day: s.today - 1, Endpoint: "convert", Used: 2},
		{Day: s.today, Endpoint: "convert", Used: 3},
		{Day: s.today, Endpoint: "rates", Used: 1},
	}
	if !slices.Equal(sorted(got), want) {
		s.Errorf("counts: got %+v, want %+v", got, want)
	}
	if got, err = s.store.Counts(s.Context(), "acc_unknown", "", s.today-29, s.today); err != nil || len(got) != 0 {
		s.Errorf("counts of an unknown account: got %+v, %v", got, err)
	}
}

// check: Check of a working store returns no error and changes no count.
func (s *suite) check() {
	s.account("acc_1")
	call := s.call("acc_1", "convert")
	for i := range int64(3) {
		s.must(s.store.Check(s.Context()))
		s.take(call, store.Unlimited, i+1, true)
	}
	s.wantUsed(call, 3)
}
