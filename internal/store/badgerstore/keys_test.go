package badgerstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
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

// TestCountsOfRetiredKeys: the counts of a key that an account no longer keeps
// are deleted, also those of a day that is not in memory. Other counts stay.
func TestCountsOfRetiredKeys(t *testing.T) {
	t.Parallel()
	s := openWith(t, time.Now(), "acc_m")
	ids := []string{"", "key_kept", "key_retired"}
	var counts []change
	for _, id := range ids {
		take(t, s, store.Call{Account: "acc_m", Key: id, Endpoint: "convert", Day: today})
		counts = append(counts, countRow(appendCountKey(nil, today-9, ledger.Holder("acc_m", id), "convert"), 7))
	}
	if err := writeDurably(s, counts...); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangeOne(t.Context(), time.Now(), "acc_m", func(a *book.Account) error { a.Retired = ids[2:]; return nil }); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		got, err := s.Counts(t.Context(), "acc_m", id, today-9, today)
		if want := []int{2, 2, 0}[i]; err != nil || len(got) != want {
			t.Errorf("counts of key %q: got %v, %v, want those of %d days", id, got, err, want)
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
		case <-time.After(time.Minute):
			return errors.New("still waiting")
		}
	})
	if err != nil {
		t.Errorf("a change of another account: %v", err)
	}
}
