package badgerstore

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// openWith opens a store with some accounts.
func openWith(t *testing.T, now time.Time, accounts ...string) TestStore {
	t.Helper()
	s := openHere(t, t.TempDir(), Options{Reserve: 1})
	for _, id := range accounts {
		if _, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: id, Plan: "starter", CreatedAt: now}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func newKey(account, id string, now time.Time) store.Key {
	return store.Key{ID: id, Account: account, Kind: token.Key, Name: id, Abilities: []string{"convert"}, CreatedAt: now}
}

func hashOfNumber(i int) token.Hash { return sha256.Sum256([]byte(fmt.Sprint(i))) }

// Threat: a client that replaces keys, or logs in, all day fills the store and
// slows down every change of its account.
//
// TestEndedKeysAreBounded: the keys that ended last are kept. The tokens of the
// others grant nothing, and their counts are deleted, also those of a day that
// is not in memory.
func TestEndedKeysAreBounded(t *testing.T) {
	t.Parallel()
	const excess = 5
	for _, kind := range []token.Kind{token.Key, token.Login} {
		now := time.Now().UTC().Truncate(time.Millisecond)
		s := openWith(t, now, "acc_m")
		var ids []string
		var counts []change
		err := s.ChangeOne(t.Context(), now, "acc_m", func(a *book.Account) error {
			for i := range store.MaxLiveKeys {
				k := newKey("acc_m", fmt.Sprintf("key_%04d", i), now)
				k.Kind = kind
				if err := a.Create(book.Key{Key: k, Hash: hashOfNumber(i)}); err != nil {
					return err
				}
				ids = append(ids, k.ID)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range excess {
			id := fmt.Sprintf("key_more_%d", i)
			ids = append(ids, id)
		}
		for _, id := range ids {
			take(t, s, store.Call{Account: "acc_m", Key: id, Endpoint: "convert", Day: today})
			counts = append(counts, countRow(appendCountKey(nil, today-9, ledger.Holder("acc_m", id), "convert"), 7))
		}
		if err := writeDurably(s, counts...); err != nil {
			t.Fatal(err)
		}
		for i := range store.MaxLiveKeys { // all end, one after the other
			if err := s.RevokeKey(t.Context(), "acc_m", ids[i], now.Add(time.Duration(i-store.MaxLiveKeys)*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range excess {
			k := newKey("acc_m", ids[store.MaxLiveKeys+i], now)
			k.Kind = kind
			if err := s.CreateKey(t.Context(), k, hashOfNumber(store.MaxLiveKeys+i)); err != nil {
				t.Fatal(err)
			}
			if err := s.RevokeKey(t.Context(), "acc_m", k.ID, now); err != nil {
				t.Fatal(err)
			}
		}
		document, err := s.Get(t.Context(), "acc_m")
		if err != nil {
			t.Fatal(err)
		}
		var kept []string
		for _, k := range document.Keys {
			kept = append(kept, k.ID)
		}
		slices.Sort(kept)
		if !slices.Equal(kept, ids[excess:]) {
			t.Errorf("%s: kept %v, want %v", kind, kept, ids[excess:])
		}
		for i, id := range ids {
			if _, err := s.Grant(t.Context(), hashOfNumber(i), now); !errors.Is(err, store.ErrNoGrant) {
				t.Errorf("%s: the token of %s: got %v", kind, id, err)
			}
			got, err := s.Counts(t.Context(), "acc_m", id, today-9, today)
			if err != nil || i < excess && len(got) > 0 || i >= excess && len(got) != 2 {
				t.Errorf("%s: counts of %s: %v, %v", kind, id, got, err)
			}
		}
	}
}

// Threat: an account has so many keys that the logins of all others wait for
// it.
func TestAccountsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Millisecond)
	s := openWith(t, now, "acc_m")
	other := "acc_0"
	for i := 1; s.stripe(other) == s.stripe("acc_m"); i++ {
		other = fmt.Sprint("acc_", i)
	}
	err := s.ChangeOne(t.Context(), now, "acc_m", func(*book.Account) error {
		done := make(chan error, 1)
		go func() {
			_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: other, Plan: "starter", CreatedAt: now})
			done <- err
		}()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("still waiting")
		}
	})
	if err != nil {
		t.Errorf("a change of another account: %v", err)
	}
}
