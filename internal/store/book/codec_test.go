package book_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// fill sets all fields of a value, also those of its elements.
func fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = now
		return
	case *netip.Prefix:
		*p = netip.MustParsePrefix("2001:db8::/32")
		return
	case *netip.Addr:
		*p = netip.MustParseAddr("2001:db8::1")
		return
	case *json.RawMessage:
		*p = json.RawMessage(`{"a":"\u0000"}`)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("a \x00 “ß” \U0001F600")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(31)
	case reflect.Int32:
		v.SetInt(20_000)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(2)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if slices.Contains([]string{"OfAddress", "Calls", "Requests", "Soft", "Included"}, v.Type().Field(i).Name) {
				if v.Type() == reflect.TypeFor[store.Limit]() {
					continue // such limits are not kept
				}
			}
			fill(v.Field(i))
		}
	default:
		panic("no value for " + v.Type().String())
	}
}

// filled returns a value whose fields are all set.
func filled[T any]() (value T) {
	fill(reflect.ValueOf(&value).Elem())
	return value
}

// notKept are the fields that a value does not have: they are known from where
// it is kept.
var notKept = []string{
	"Account.ID", "Key.Account", "Key.Kind", "Key.LastUsedAt", "Key.LastUsedFrom",
	"Record.Account", "Record.From", "Record.Handle", "Entry.ID", "Event.Queued", "Event.Data", "Limit.OfAddress", "Override.OfAddress",
	"Limit.Calls", "Override.Calls", "Limit.Requests", "Override.Requests", "Limit.Soft", "Override.Soft", "Limit.Included", "Override.Included",
}

// TestTags: each field of a type that is kept has a number of its own and a
// name in backups, or is known to be kept elsewhere.
func TestTags(t *testing.T) {
	t.Parallel()
	for _, kept := range []any{
		store.Account{}, store.StoredKey{}, store.Limit{}, store.Override{}, store.Billing{}, store.Prepaid{}, store.TopUp{}, calendar.Window{}, store.Record{}, store.Entry{}, store.Event{}, book.LastUse{},
	} {
		var numbers []string
		for _, field := range reflect.VisibleFields(reflect.TypeOf(kept)) {
			number, options, _ := strings.Cut(field.Tag.Get("cbor"), ",")
			of := fmt.Sprintf("%T.%s", kept, field.Name)
			of = strings.Replace(of[strings.Index(of, ".")+1:], "StoredKey.", "Key.", 1)
			_, err := strconv.Atoi(number)
			switch known := slices.Contains(notKept, of); {
			case field.Anonymous:
			case known && number == "-":
			case known || err != nil || !strings.HasPrefix(options, "keyasint") || slices.Contains(numbers, number):
				t.Errorf("%s has the tag %q", of, field.Tag)
			case field.Tag.Get("json") == "" || field.Tag.Get("json") == "-":
				t.Errorf("%s has no name in backups: %q", of, field.Tag)
			default:
				numbers = append(numbers, number)
			}
		}
	}
}

// fullDocument returns an account with a key and a login token, all of whose
// fields are set.
func fullDocument() *book.Account {
	a := &book.Account{Account: filled[store.Account](), Exists: true}
	a.ID = "acc_1"
	for i, kind := range []token.Kind{token.Key, token.Login} {
		k := filled[book.Key]()
		k.ID, k.Account, k.Kind, k.Hash = fmt.Sprint("key_", i), a.ID, kind, hashOf(fmt.Sprint(i))
		k.LastUsedAt, k.LastUsedFrom = time.Time{}, netip.Addr{}
		a.Keys = append(a.Keys, &k)
	}
	return a
}

func wantDocument(t *testing.T, what string, got, want *book.Account) {
	t.Helper()
	if !slices.Equal(names(got.Keys), names(want.Keys)) || !reflect.DeepEqual(got.Account, want.Account) {
		t.Fatalf("%s: got %+v with keys %q, want %+v with %q", what, got.Account, names(got.Keys), want.Account, names(want.Keys))
	}
	for i, k := range want.Keys {
		if !reflect.DeepEqual(got.Keys[i], k) {
			t.Fatalf("%s, key %d:\n got %+v\nwant %+v", what, i, got.Keys[i], k)
		}
	}
}

// TestCodec: a document is read as it was written, with all its members, and
// nothing of it is in the memory that it was read from.
func TestCodec(t *testing.T) {
	t.Parallel()
	empty := document()
	empty.Account = store.Account{ID: "acc_1"}
	large := document(append(many(100, "k", key), many(100, "l", login)...)...)
	slices.SortFunc(large.Keys, func(k, l *book.Key) int { return cmp.Or(k.CreatedAt.Compare(l.CreatedAt), cmp.Compare(k.ID, l.ID)) })
	for name, want := range map[string]*book.Account{
		"all members": fullDocument(), "no members": empty, "zero times": document(book.Key{Key: store.Key{Account: "acc_1", Kind: token.Key}}),
		"large": large,
	} {
		for _, k := range want.Keys {
			k.Account = want.ID
		}
		parts := want.Encode()
		got, err := book.Decode(want.ID, parts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range [][]byte{parts.Account, parts.Keys, parts.Logins} {
			clear(part)
		}
		wantDocument(t, name, got, want)
	}
}

// TestDamaged: what no gate wrote is an error, and no panic now or later.
func TestDamaged(t *testing.T) {
	t.Parallel()
	good := fullDocument().Encode()
	large := document(many(100, "k", key)...).Encode().Keys
	bomb := []byte{2, 0xff, 0xff, 0xff, 0xff, 0x0f} // 4 GB, compressed
	limited := func(l store.Limit) book.Parts {
		a := document(key("ci", 0))
		a.Keys[0].Limits = []store.Limit{l}
		return a.Encode()
	}
	override := document()
	override.Overrides = []store.Override{{Limit: store.Limit{Endpoint: "e", Period: 9, Max: 1}}}
	for name, parts := range map[string]book.Parts{
		"no account": {}, "no value": {Account: []byte{1}}, "another version": {Account: append([]byte{3}, good.Account[1:]...)},
		"a cut account": {Account: good.Account[:len(good.Account)-1]}, "bytes behind": {Account: append(slices.Clone(good.Account), 0)},
		"a cut key": {Account: good.Account, Keys: good.Keys[:9]}, "another type": {Account: good.Account, Logins: good.Account},
		"cut in the middle": {Account: good.Account, Keys: large[:len(large)/2]}, "a bomb": {Account: good.Account, Keys: bomb},
		"no period": limited(store.Limit{Max: 1}), "an unknown period": limited(store.Limit{Period: store.Total + 1, Max: 1}),
		"a pace of nothing": limited(store.Limit{Period: store.Hour}), "a negative limit": limited(store.Limit{Period: store.Day, Max: -1}),
		"an override": override.Encode(),
	} {
		if a, err := book.Decode("acc_1", parts); !errors.Is(err, book.ErrDamaged) || !strings.Contains(err.Error(), "acc_1") {
			t.Errorf("%s: got %+v, %v, want %v with the account", name, a, err, book.ErrDamaged)
		}
	}
	if _, err := book.Decode("acc_1", limited(store.Limit{Period: store.Day})); err != nil {
		t.Errorf("a quota of 0: %v", err)
	}
}

// FuzzDecode: any bytes are an error, or a document that the gate can use.
func FuzzDecode(f *testing.F) {
	for _, a := range []*book.Account{fullDocument(), document(many(100, "k", key)...)} {
		p := a.Encode()
		f.Add(p.Account, p.Keys, p.Logins)
	}
	f.Add([]byte{1, 0xa0}, []byte{1, 0xf6}, []byte{2, 0})
	f.Fuzz(func(t *testing.T, account, keys, logins []byte) {
		a, err := book.Decode("acc_1", book.Parts{Account: account, Keys: keys, Logins: logins})
		if err != nil {
			return
		}
		a.Encode()
		for _, k := range a.Keys {
			a.Grant(k)
			for _, l := range k.Limits {
				if l.Period.IsPace() && l.Wait(new(store.Bucket).Room(l, 0), 1) != 0 {
					t.Errorf("a full bucket of %+v makes calls wait", l)
				}
			}
		}
	})
}
