package book

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// drawDocument draws a document with keys of both kinds.
func drawDocument(t *rapid.T) *Account {
	text := rapid.String()
	at := func(name string) time.Time {
		if rapid.Bool().Draw(t, name+" is zero") {
			return time.Time{}
		}
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, name), rapid.Int64Range(0, 999_999_999).Draw(t, name+" ns")).UTC()
	}
	limit := store.Limit{Endpoint: "convert", Period: store.Month, Max: 7, OfKey: true}
	a := &Account{Exists: true, Account: store.Account{
		ID: "acc_1", Plan: text.Draw(t, "plan"), Label: text.Draw(t, "label"), Disabled: rapid.Bool().Draw(t, "disabled"), CreatedAt: at("created"),
	}}
	if rapid.Bool().Draw(t, "overridden") {
		a.Overrides = []store.Override{{Limit: limit, Reason: text.Draw(t, "reason"), CreatedAt: at("overridden")}}
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "keys") {
		k := &Key{Key: store.Key{
			ID: text.Draw(t, "id"), Account: "acc_1", Kind: rapid.SampledFrom([]token.Kind{token.Key, token.Login}).Draw(t, "kind"),
			Name: text.Draw(t, "name"), Abilities: rapid.SliceOfN(text, 1, 3).Draw(t, "abilities"), Hint: text.Draw(t, "hint"),
			CreatedAt: at("created"), ExpiresAt: at("expires"), RevokedAt: at("revoked"), Root: text.Draw(t, "root"),
		}}
		copy(k.Hash[:], rapid.SliceOfN(rapid.Byte(), 31, 31).Draw(t, "hash"))
		k.Hash[31] = byte(i)
		if rapid.IntRange(0, 20).Draw(t, "restricted") == 0 {
			k.Limits, k.Addresses = []store.Limit{limit}, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}
		a.Keys = append(a.Keys, k)
	}
	a.sort()
	return a
}

// TestSkim: what is skimmed is what Decode returns, except for what it leaves
// out. A part that is cut is damaged.
func TestSkim(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		parts := drawDocument(t).Encode()
		want, err := Decode("acc_1", parts)
		if err != nil {
			t.Fatal(err)
		}
		account, err := SkimAccount("acc_1", parts.Account)
		account.Label, account.CreatedAt = want.Label, want.CreatedAt
		if err != nil || !reflect.DeepEqual(account, want.Account) {
			t.Errorf("got %+v, %v, want %+v", account, err, want.Account)
		}
		var keys []*Key
		for kind, part := range map[token.Kind][]byte{token.Key: parts.Keys, token.Login: parts.Logins} {
			if part == nil {
				continue
			}
			err := SkimKeys("acc_1", kind, part, func(k *Key) error {
				kept := *k
				kept.Abilities = slices.Clone(k.Abilities)
				keys = append(keys, &kept)
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", kind, err)
			}
			cut := part[:rapid.IntRange(0, len(part)-1).Draw(t, "cut")]
			ignore := func(*Key) error { return nil }
			if err := SkimKeys("acc_1", kind, cut, ignore); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s without the end: got %v", kind, err)
			}
		}
		if len(keys) != len(want.Keys) {
			t.Errorf("got %d keys, want %d", len(keys), len(want.Keys))
		}
		for _, k := range keys {
			full := *byHash(want, k.Hash)
			full.Hint, full.CreatedAt, k.Hint, k.CreatedAt = "", time.Time{}, "", time.Time{}
			if !reflect.DeepEqual(*k, full) {
				t.Errorf("key:\n got %+v\nwant %+v", *k, full)
			}
		}
	})
}

func byHash(a *Account, hash token.Hash) *Key {
	for _, k := range a.Keys {
		if k.Hash == hash {
			return k
		}
	}
	return nil
}

// FuzzSkim: of any data, keys or an error are read.
func FuzzSkim(f *testing.F) {
	parts := (&Account{Account: store.Account{Plan: "starter"}, Keys: []*Key{{Key: store.Key{ID: "key_1", Kind: token.Key, Abilities: []string{"convert"}, ExpiresAt: time.Unix(7, 0)}}}}).Encode()
	f.Add(parts.Account)
	f.Add(parts.Keys)
	f.Fuzz(func(t *testing.T, part []byte) {
		_, _ = SkimAccount("acc_1", part)
		if err := SkimKeys("acc_1", token.Key, part, func(*Key) error { return nil }); err == nil && len(part) == 0 {
			t.Error("nothing was read as keys")
		}
	})
}
