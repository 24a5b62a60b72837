package storetest

import (
	"net/netip"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// keyDays: a key has its admitted and refused calls by day, also more calls
// than Recent lists, and none of other keys or of a deleted account.
func (s *suite) keyDays() {
	s.account("acc_1")
	key, other := s.newKey("acc_1", "ci"), s.newKey("acc_1", "other")
	s.create(key)
	s.create(other)
	at := s.now
	use := func(id string, day calendar.Day, code string, calls int) {
		for range calls {
			at = at.Add(time.Millisecond)
			s.store.Record(store.Record{Account: "acc_1", Key: id, At: at, Day: day, Endpoint: "convert", Code: code, From: netip.MustParseAddr("192.0.2.1")})
		}
		_, err := s.store.Recent(s.Context(), "acc_1", at) // nothing waits to be written
		s.must(err)
	}
	want := func(key store.Key, want ...store.KeyDay) {
		s.Helper()
		one, err := s.store.Key(s.Context(), "acc_1", key.ID)
		s.must(err)
		list, err := s.store.ListKeys(s.Context(), "acc_1")
		s.must(err)
		for _, got := range append(list, one) {
			if got.ID == key.ID && !same(got.Days, want) {
				s.Errorf("days of key %s: got %v, want %v", key.Name, got.Days, want)
			}
		}
	}
	want(key)
	use(key.ID, s.today-1, "", 3)
	use(key.ID, s.today, "", 2)
	use(key.ID, s.today, "insufficient_scope", 5)
	for range 3 {
		use(key.ID, s.today, "", 90)
	}
	use(key.ID, s.today-1, "", 1) // a slow call that ends late
	days := []store.KeyDay{{Day: s.today - 1, Calls: 4}, {Day: s.today, Calls: 272, Refused: 5}}
	want(key, days...)
	want(other)
	use("", s.today, "", 1) // of an account without a token
	s.changeKey(key, func(k *store.Key) { k.Name = "renamed" })
	want(key, days...)
	s.restart()
	want(key, days...)

	// The oldest days are dropped.
	for i := range store.KeyDays + 2 {
		use(other.ID, s.today+calendar.Day(i), "", 1)
	}
	var newest []store.KeyDay
	for i := range store.KeyDays {
		newest = append(newest, store.KeyDay{Day: s.today + calendar.Day(i+2), Calls: 1})
	}
	want(other, newest...)

	// A new account with the id, and a new key with the id, begin without days.
	s.must(s.store.DeleteAccount(s.Context(), "acc_1"))
	s.account("acc_1")
	again := s.newKey("acc_1", "ci")
	s.create(again)
	want(again)
}
