package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// moveToken moves the token of the only key of acc_1 to acc_2.
func moveToken(t *testing.T, s *gate) token.Hash {
	t.Helper()
	hash := newAccount(t, s, "acc_1")
	check(t, s.RevokeKey(t.Context(), "acc_1", "key_acc_1", time.Now()))
	newAccount(t, s, "acc_2")
	check(t, s.CreateKey(t.Context(), imported("acc_2"), hash))
	return hash
}

func imported(account string) store.Key {
	return store.Key{ID: "key_imported_" + account, Account: account, Kind: token.Key, Name: "imported", CreatedAt: time.Now()}
}

// wantOwner checks to whom a token belongs, at a gate that has just begun.
func wantOwner(t *testing.T, o redisstore.Options, hash token.Hash, want string) {
	t.Helper()
	if grant, err := openStore(t, o).Grant(t.Context(), hash, time.Now()); err != nil || grant.Account != want {
		t.Errorf("got a grant of %q, %v, want %s", grant.Account, err, want)
	}
}

// TestMovedTokenOfCache: a gate that knows the old account of a token serves the
// new one at the next call.
func TestMovedTokenOfCache(t *testing.T) {
	t.Parallel()
	o := redisstore.Options{URL: redistest.Start(t).URL()}
	s, other := openStore(t, o), openStore(t, o)
	hash := newAccount(t, s, "acc_1")
	newAccount(t, s, "acc_2")
	call := store.Call{Endpoint: "convert", Day: today()}
	want := func(account string) {
		t.Helper()
		if admitted, grant, err := decide(t.Context(), other, hash, call, nil); err != nil || !admitted || grant.Account != account {
			t.Errorf("got %t, %+v, %v, want a call of %s", admitted, grant, err, account)
		}
	}
	want("acc_1")
	check(t, s.RevokeKey(t.Context(), "acc_1", "key_acc_1", time.Now()))
	check(t, s.CreateKey(t.Context(), imported("acc_2"), hash))
	want("acc_2")
}

// TestRestoreMovedToken: a moved token belongs to its live key after a restore,
// in whatever order the accounts are.
func TestRestoreMovedToken(t *testing.T) {
	t.Parallel()
	from := openStore(t, redisstore.Options{URL: redistest.Start(t).URL()})
	hash := moveToken(t, from)
	pieces := storetest.Pieces(t, from.Book)
	for range 2 {
		slices.Reverse(pieces)
		o := redisstore.Options{URL: redistest.Start(t).URL()}
		check(t, redisstore.Restore(t.Context(), o, all(pieces, nil)))
		wantOwner(t, o, hash, "acc_2")
	}
}
