package ledger_test

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// TestGrantFollowsChanges: a grant has the overrides of the account and the
// restriction and name of the key as they were last set.
func TestGrantFollowsChanges(t *testing.T) {
	t.Parallel()
	l := ledger.New(nil)
	hash := token.Hash{1}
	account := store.Account{ID: "acc_1", Plan: "starter"}
	key := ledger.Token{Hash: hash, Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert", ExpiresAt: now.Add(time.Hour)}
	restriction := &store.Restriction{CountsAs: "key_1", Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}
	override := store.Override{Limit: store.Limit{Endpoint: "convert", Period: store.Day, Max: 5}}
	want := func(name string, overrides []store.Override, restriction *store.Restriction) {
		t.Helper()
		grant, err := l.Grant(&hash, now)
		if err != nil || grant.KeyName != name || !reflect.DeepEqual(grant.Overrides, overrides) || !reflect.DeepEqual(grant.Restriction, restriction) {
			t.Errorf("got %+v, %v, want the name %s, %v and %v", grant, err, name, overrides, restriction)
		}
	}
	l.PutAccount(&account)
	l.PutToken(&key)
	want("ci", nil, nil)

	account.Overrides = []store.Override{override}
	l.PutAccount(&account)
	account.Overrides[0].Max = 6 // the ledger has its own copy
	want("ci", []store.Override{override}, nil)

	key.Name, key.Restriction = "build", restriction
	l.PutToken(&key)
	want("build", []store.Override{override}, restriction)

	key.Restriction = nil
	l.PutToken(&key)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	want("build", nil, nil)

	key.Restriction = restriction
	l.PutToken(&key)
	l.RemoveToken(hash, "acc_1", "key_1")
	key.Restriction = nil
	l.PutToken(&key)
	want("build", nil, nil)
}
