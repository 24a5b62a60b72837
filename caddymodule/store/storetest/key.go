package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

func (s *suite) keys() {
	s.account("acc_1", "acc_2")
	s.wantError("a key of an unknown account",
		s.store.CreateKey(s.Context(), s.newKey("acc_unknown", "ci"), hashOf("acc_unknown")), store.ErrNotFound)
	s.wantNoGrant("a key that was refused", hashOf("acc_unknown"), s.now)

	first := s.newKey("acc_1", "z first")
	first.CreatedAt, first.ExpiresAt = s.now.Add(-time.Hour), s.now.Add(time.Hour)
	second := s.newKey("acc_1", "a second")
	second.Abilities = nil
	login := s.newKey("acc_1", "")
	login.ID, login.Kind, login.CreatedAt, login.ExpiresAt = "key_l", token.Login, s.now.Add(time.Second), s.now.Add(time.Hour)
	want := []store.Key{first, second, login}
	for _, i := range []int{2, 0, 1} {
		s.create(want[i])
	}
	s.create(s.newKey("acc_2", "other"))

	got, err := s.store.ListKeys(s.Context(), "acc_1")
	s.must(err)
	if len(got) != len(want) {
		s.Fatalf("list of keys: got %+v, want %+v", got, want)
	}
	for i := range want {
		s.wantKey(got[i], want[i])
		one, err := s.store.Key(s.Context(), "acc_1", want[i].ID)
		s.must(err)
		s.wantKey(one, want[i])
		if !one.LastUsedAt.IsZero() {
			s.Errorf("last use of an unused key: got %v", one.LastUsedAt)
		}
	}
	_, err = s.store.Key(s.Context(), "acc_2", first.ID)
	s.wantError("another account's key", err, store.ErrNotFound)
	_, err = s.store.Key(s.Context(), "acc_1", "key_unknown")
	s.wantError("an unknown key", err, store.ErrNotFound)
	if got, err = s.store.ListKeys(s.Context(), "acc_unknown"); err != nil || len(got) != 0 {
		s.Errorf("keys of an unknown account: got %v, %v", got, err)
	}
}

// keyIDs: no creation replaces a key, so that the id of a revoked key does not
// become live again.
func (s *suite) keyIDs() {
	s.account("acc_1")
	key := s.newKey("acc_1", "ci")
	s.create(key)
	again := key
	again.Name = "another"
	s.wantError("an id of a live key", s.store.CreateKey(s.Context(), again, hashOf(key.ID)), store.ErrExists)
	s.wantGrant(hashOf(key.ID), key, "starter")
	s.must(s.store.RevokeKey(s.Context(), "acc_1", key.ID, s.now))
	s.wantError("the id of a revoked key", s.store.CreateKey(s.Context(), again, hashOf(key.ID)), store.ErrExists)
	s.wantNoGrant("a revoked key", hashOf(key.ID), s.now)
}

// keyBatches: the keys of a batch are checked one after the other, and one
// that is refused does not stop the others.
func (s *suite) keyBatches() {
	s.account("acc_1", "acc_2")
	s.create(s.newKey("acc_1", "taken"))
	var keys []store.StoredKey
	var want []error
	add := func(account, name string, err error) {
		key := s.newKey(account, name)
		key.ID = fmt.Sprintf("key_batch_%d", len(keys))
		keys, want = append(keys, store.StoredKey{Key: key, Hash: hashOf(key.ID)}), append(want, err)
	}
	add("acc_1", "one", nil)
	add("acc_1", "taken", store.ErrNameTaken)
	add("acc_unknown", "one", store.ErrNotFound)
	add("acc_2", "one", nil)
	add("acc_1", "one", store.ErrNameTaken)
	for n := range store.MaxLiveKeys - 1 {
		add("acc_2", fmt.Sprint("more ", n), nil)
	}
	add("acc_2", "too many", store.ErrTooManyKeys)
	keys, want = append(keys, keys[0]), append(want, store.ErrExists)
	errs := s.store.CreateKeys(s.Context(), keys)
	if len(errs) != len(keys) {
		s.Fatalf("got %d errors for %d keys", len(errs), len(keys))
	}
	for i, err := range errs {
		if !errors.Is(err, want[i]) {
			s.Errorf("key %d: got %v, want %v", i, err, want[i])
		}
		switch {
		case want[i] == nil:
			s.wantGrant(keys[i].Hash, keys[i].Key, "starter")
		case !errors.Is(want[i], store.ErrExists):
			s.wantNoGrant("a key that was refused", keys[i].Hash, s.now)
		}
	}
	if got := s.store.CreateKeys(s.Context(), nil); len(got) != 0 {
		s.Errorf("an empty batch: got %v", got)
	}
}

// keyNames: an account has one live key of a name.
func (s *suite) keyNames() {
	s.account("acc_1", "acc_2")
	expiring := s.newKey("acc_1", "ci")
	expiring.ExpiresAt = s.now.Add(time.Minute)
	s.create(expiring)
	s.create(s.newKey("acc_2", "ci"))

	again := s.newKey("acc_1", "ci")
	again.ID = "key_again"
	s.wantError("a taken name", s.store.CreateKey(s.Context(), again, hashOf(again.ID)), store.ErrNameTaken)
	s.wantNoGrant("a key that was refused", hashOf(again.ID), s.now)
	s.wantGrant(hashOf(expiring.ID), expiring, "starter")

	login := again
	login.ID, login.Kind = "key_login", token.Login
	s.create(login) // login tokens may share a name

	again.CreatedAt = expiring.ExpiresAt
	s.create(again) // expiring has expired by then
	s.must(s.store.RevokeKey(s.Context(), "acc_1", again.ID, again.CreatedAt))
	again.ID = "key_third"
	s.create(again)

	// Of concurrent keys with one name, one is created.
	for round := range rounds(20) {
		var created atomic.Int64
		s.together(8, func(i int) error {
			key := s.newKey("acc_2", fmt.Sprint("concurrent ", round))
			key.ID = fmt.Sprintf("key_concurrent_%d_%d", round, i)
			err := s.store.CreateKey(s.Context(), key, hashOf(key.ID))
			if err == nil {
				created.Add(1)
			}
			return ignore(err, store.ErrNameTaken)
		})
		if got := created.Load(); got != 1 {
			s.Errorf("%d keys have one name", got)
		}
	}
}

func (s *suite) keyLimit() {
	s.account("acc_1")
	for i := range store.MaxLiveKeys - 1 {
		s.create(s.newKey("acc_1", fmt.Sprintf("k%d", i)))
	}
	login := s.newKey("acc_1", "login")
	login.Kind = token.Login
	s.create(login)
	expiring := s.newKey("acc_1", "expiring")
	expiring.ExpiresAt = s.now.Add(time.Minute)
	s.create(expiring)

	extra := s.newKey("acc_1", "extra")
	s.wantError("a key too many", s.store.CreateKey(s.Context(), extra, hashOf(extra.ID)), store.ErrTooManyKeys)
	login.ID = "key_login_2"
	s.create(login)
	next := s.newKey("acc_1", "next")
	s.wantError("an overlap too many", s.replace("key_acc_1_k0", next, s.now.Add(time.Hour)), store.ErrTooManyKeys)
	s.must(s.replace("key_acc_1_k0", next, s.now))
	extra.CreatedAt = expiring.ExpiresAt
	s.create(extra)
}

func (s *suite) revoke() {
	s.account("acc_1", "acc_2")
	key, other := s.newKey("acc_1", "ci"), s.newKey("acc_1", "other")
	login := s.newKey("acc_1", "")
	login.ID, login.Kind, login.ExpiresAt = "key_l", token.Login, s.now.Add(time.Hour)
	hash, otherHash, loginHash := s.create(key), s.create(other), s.create(login)

	s.wantError("revoking an unknown key",
		s.store.RevokeKey(s.Context(), "acc_1", "key_unknown", s.now), store.ErrNotFound)
	s.wantError("revoking another account's key",
		s.store.RevokeKey(s.Context(), "acc_2", key.ID, s.now), store.ErrNotFound)
	s.wantGrant(hash, key, "starter")

	s.must(s.store.RevokeKey(s.Context(), "acc_1", key.ID, s.now))
	s.must(s.store.RevokeKey(s.Context(), "acc_1", login.ID, s.now))
	s.wantNoGrant("a revoked key", hash, s.now)
	s.wantNoGrant("a revoked key in the past", hash, s.now.Add(-time.Hour))
	s.wantNoGrant("a revoked login token", loginHash, s.now)
	s.wantGrant(otherHash, other, "starter")

	// Revoking it again changes nothing.
	s.must(s.store.RevokeKey(s.Context(), "acc_1", key.ID, s.now.Add(time.Hour)))
	got, err := s.store.Key(s.Context(), "acc_1", key.ID)
	s.must(err)
	key.RevokedAt = s.now
	s.wantKey(got, key)

	// Later writes do not make it valid again.
	s.store.Record(store.Record{Account: "acc_1", Key: key.ID, At: s.now, Endpoint: "convert"})
	_, err = s.store.Recent(s.Context(), "acc_1", s.now)
	s.must(err)
	s.account("acc_1")
	s.wantNoGrant("a revoked key after a late record", hash, s.now)
}

// lastUse: a key has the time of its last use and the address of that use.
func (s *suite) lastUse() {
	s.account("acc_1")
	key := s.newKey("acc_1", "ci")
	s.create(key)
	addresses := map[time.Time]netip.Addr{} // by the time of the use
	use := func(at time.Time, from string) {
		record := store.Record{Account: "acc_1", Key: key.ID, KeyName: "ci", At: at, Endpoint: "convert"}
		if from != "" {
			record.From = netip.MustParseAddr(from)
		}
		addresses[at] = record.From
		s.store.Record(record)
		recent, err := s.store.Recent(s.Context(), "acc_1", s.now)
		s.must(err)
		for _, r := range recent {
			if r.From.IsValid() {
				s.Errorf("the recent call %+v has an address", r)
			}
		}
	}
	want := func(at time.Time) {
		s.Helper()
		one, err := s.store.Key(s.Context(), "acc_1", key.ID)
		s.must(err)
		list, err := s.store.ListKeys(s.Context(), "acc_1")
		s.must(err)
		for _, got := range []store.Key{one, list[0]} {
			if age := at.Sub(got.LastUsedAt); age < 0 || age > time.Minute {
				s.Errorf("last use: got %v, want %v or up to a minute before", got.LastUsedAt, at)
			}
			if want, used := addresses[got.LastUsedAt]; !used || got.LastUsedFrom != want {
				s.Errorf("last use at %v: got address %v, want %v", got.LastUsedAt, got.LastUsedFrom, want)
			}
		}
	}
	use(s.now, "192.0.2.1")
	want(s.now)
	use(s.now.Add(10*time.Second), "192.0.2.2")
	want(s.now.Add(10 * time.Second))
	use(s.now.Add(2*time.Minute), "2001:db8::1")
	want(s.now.Add(2 * time.Minute))
	use(s.now.Add(-time.Hour), "192.0.2.3") // a slow call that ends late
	want(s.now.Add(2 * time.Minute))
	s.changeKey(key, func(k *store.Key) { k.Limits = nil }) // does not change it
	s.restart()
	want(s.now.Add(2 * time.Minute))
	use(s.now.Add(4*time.Minute), "") // unknown
	want(s.now.Add(4 * time.Minute))
}
