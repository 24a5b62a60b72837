package storetest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
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

// recent: the last calls and the last use of a key are read as soon as they
// are recorded, and are kept.
func (s *suite) recent() {
	s.account("acc_1", "acc_2", "acc_3")
	key := s.newKey("acc_1", "ci")
	s.create(key)
	s.wantRecent("acc_1", s.now, nil)
	var want []store.Record
	for i := range store.MaxRecent + 7 {
		r := s.record("acc_1", i)
		r.Key, r.From = key.ID, netip.MustParseAddr("192.0.2.1")
		s.store.Record(r)
		r.From = netip.Addr{}
		want = slices.Insert(want, 0, r)
		if i%37 == 0 {
			s.wantRecent("acc_1", r.At, want[:min(len(want), store.MaxRecent)])
		}
		if i < 3 {
			s.store.Record(s.record("acc_2", i))
		}
	}
	for range 2 {
		s.wantRecent("acc_1", want[0].At, want[:store.MaxRecent])
		s.wantRecent("acc_2", want[0].At, []store.Record{s.record("acc_2", 2), s.record("acc_2", 1), s.record("acc_2", 0)})
		s.wantRecent("acc_3", want[0].At, nil)
		got, err := s.store.Key(s.Context(), "acc_1", key.ID)
		if s.must(err); !got.LastUsedAt.Equal(want[0].At) || got.LastUsedFrom != netip.MustParseAddr("192.0.2.1") {
			s.Errorf("the key was used at %v from %v, want %v", got.LastUsedAt, got.LastUsedFrom, want[0].At)
		}
		s.restart()
	}
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
