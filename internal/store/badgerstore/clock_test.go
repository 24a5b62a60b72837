package badgerstore

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestClockAhead: after the clock was ahead during a sweep or when the store
// opened, tokens are valid again when it is right.
func TestClockAhead(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Millisecond)
	dir := t.TempDir()
	open := func() TestStore {
		t.Helper()
		s, err := OpenTest(dir, Options{Reserve: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
	// To a clock that is a day ahead, both have expired: so they have here,
	// to the clock of this machine.
	at := now.Add(-clockAhead / 2)
	key, login := newKey("acc_1", "key_1", at), newKey("acc_1", "key_2", at)
	login.Kind = token.Login
	for i, k := range []*store.Key{&key, &login} {
		k.ExpiresAt = at.Add(time.Minute)
		if err := s.CreateKey(t.Context(), *k, token.Hash{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string) {
		t.Helper()
		for i := range byte(2) {
			if _, err := s.Grant(t.Context(), token.Hash{i}, at); err != nil {
				t.Errorf("token %d %s: %v", i, when, err)
			}
			if _, err := s.Grant(t.Context(), token.Hash{i}, now); err == nil {
				t.Errorf("token %d %s: granted when it has expired", i, when)
			}
		}
	}
	s.forget(now)
	want("after a sweep")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	want("after a restart")
	if err := s.RevokeKey(t.Context(), "acc_1", login.ID, at); err != nil {
		t.Errorf("revoking a login: %v", err)
	}
	s.forget(now.Add(clockAhead))
	if _, err := s.Grant(t.Context(), token.Hash{0}, at); err == nil {
		t.Error("a token that expired long ago is still there")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSyncThatHangs: while the disk does not answer a sync of the background,
// calls are refused, although they do not wait for it. A step of the clock does
// not look like such a disk, and does not hide one.
func TestSyncThatHangs(t *testing.T) {
	t.Parallel()
	seen := make(chan time.Time, 1)
	var s atomic.Pointer[TestStore]
	o := Options{Reserve: 1, dataSync: func(f *os.File) error {
		if s := s.Load(); s != nil {
			if began := s.journal.syncBegan.Load(); began != nil {
				select {
				case seen <- *began:
				default:
				}
			}
		}
		return f.Sync()
	}}
	opened, err := OpenTest(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	s.Store(&opened)
	// A record that only the background syncs.
	if err := opened.journal.log.Append(nil); err != nil {
		t.Fatal(err)
	}
	began := <-seen
	var refusal error
	for range 100 { // the background can sync meanwhile
		opened.journal.syncBegan.Store(new(time.Now().Add(-hangsAfter)))
		if _, refusal = opened.ledger.Take(call("convert", today), nil, nil); refusal != nil {
			break
		}
	}
	if !errors.Is(refusal, store.ErrUnavailable) {
		t.Errorf("while a sync hangs, a call gets %v", refusal)
	}
	opened.journal.syncBegan.Store(nil)
	take(t, opened, call("convert", today))
	if err := opened.Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []time.Duration{4 * time.Second, time.Hour, -time.Hour} {
		var j journal
		j.syncBegan.Store(new(storetest.Step(began.Add(time.Since(began)), -step)))
		if err := j.hangs(); err != nil {
			t.Errorf("step of %v during a short sync: %v", step, err)
		}
		j.syncBegan.Store(new(storetest.Step(began.Add(time.Since(began)-hangsAfter), -step)))
		if err := j.hangs(); err == nil {
			t.Errorf("step of %v during a sync that hangs: not noticed", step)
		}
	}
}
