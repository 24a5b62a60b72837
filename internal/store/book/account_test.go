package book_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

var now = time.Date(2026, 5, 15, 12, 0, 0, 123456789, time.UTC)

func hashOf(text string) token.Hash { return sha256.Sum256([]byte(text)) }

// key returns a key that was created some minutes after now.
func key(name string, minutes int) book.Key {
	return book.Key{
		Key: store.Key{
			ID: "key_" + name, Account: "acc_1", Kind: token.Key, Name: name, Abilities: []string{"convert"},
			CreatedAt: now.Add(time.Duration(minutes) * time.Minute),
		},
		Hash: hashOf(name),
	}
}

func login(name string, minutes int) book.Key {
	k := key(name, minutes)
	k.Kind, k.ExpiresAt = token.Login, now.Add(24*time.Hour)
	return k
}

// imported returns a key with a token of another system.
func imported(name string, minutes int) book.Key {
	k := key(name, minutes)
	k.ID = token.IDOf("acc_1", k.Hash)
	return k
}

// ended returns a key that was revoked then.
func ended(k book.Key, at time.Time) book.Key {
	k.RevokedAt = at
	return k
}

// document returns an account with keys.
func document(keys ...book.Key) *book.Account {
	a := &book.Account{Account: store.Account{ID: "acc_1", Plan: "starter", CreatedAt: now}, Exists: true}
	for _, k := range keys {
		a.Keys = append(a.Keys, &k)
	}
	return a
}

// many returns keys with names that begin with a name.
func many(n int, name string, newKey func(string, int) book.Key) (keys []book.Key) {
	for i := range n {
		keys = append(keys, newKey(fmt.Sprintf("%s%03d", name, i), i-1000))
	}
	return keys
}

func names(keys []*book.Key) (list []string) {
	for _, k := range keys {
		list = append(list, k.Name)
	}
	return list
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func wantNames(t *testing.T, what string, got []*book.Key, want ...string) {
	t.Helper()
	if !slices.Equal(names(got), want) {
		t.Errorf("%s: got %q, want %q", what, names(got), want)
	}
}

// TestCreate: an account has one live key of a name and an id, and at most so
// many. Keys that ended and login tokens do not count.
func TestCreate(t *testing.T) {
	t.Parallel()
	full := many(store.MaxLiveKeys, "k", key)
	expiring := key("expiring", 0)
	expiring.ExpiresAt = now.Add(time.Minute)
	sameID := key("another", 0)
	sameID.ID = "key_ci"
	for _, test := range []struct {
		name string
		has  []book.Key
		add  book.Key
		want error
	}{
		{"the first key", nil, key("ci", 0), nil},
		{"another name", []book.Key{key("ci", 0)}, key("web", 0), nil},
		{"a name that is taken", []book.Key{key("ci", 0)}, withID(key("ci", 1), "key_2"), store.ErrNameTaken},
		{"the name of a revoked key", []book.Key{ended(key("ci", 0), now)}, withID(key("ci", 1), "key_2"), nil},
		{"the name of a key that expires", []book.Key{expiring}, withID(key("expiring", 0), "key_2"), store.ErrNameTaken},
		{"the name of a key that expired", []book.Key{expiring}, withID(key("expiring", 1), "key_2"), nil},
		{"the name of a login token", []book.Key{login("ci", 0)}, withID(key("ci", 0), "key_2"), nil},
		{"the id of a live key", []book.Key{key("ci", 0)}, sameID, store.ErrExists},
		{"the id of a revoked key", []book.Key{ended(key("ci", 0), now)}, sameID, store.ErrExists},
		{"the last key", full[1:], key("ci", 0), nil},
		{"a key too many", full, key("ci", 0), store.ErrTooManyKeys},
		{"a key beside one that ended", append(full[1:], ended(full[0], now)), key("ci", 0), nil},
		{"a key beside login tokens", append(full[1:], login("a", 0), login("b", 0)), key("ci", 0), nil},
		{"a login token beside all keys", full, login("ci", 0), nil},
	} {
		a := document(test.has...)
		wantError(t, test.name, a.Create(test.add), test.want)
		added := a.Find(test.add.ID) != nil && len(a.Keys) == len(test.has)+1
		if added != (test.want == nil) {
			t.Errorf("%s: got keys %q", test.name, names(a.Keys))
		}
	}
	wantError(t, "a key without an account", new(book.Account).Create(key("ci", 0)), store.ErrNotFound)
}

// TestOrder: keys are sorted by creation, and then by id.
func TestOrder(t *testing.T) {
	t.Parallel()
	a := document()
	for _, k := range []book.Key{key("c", 2), login("a", 1), key("z", 1), key("y", 0)} {
		wantError(t, k.Name, a.Create(k), nil)
	}
	wantNames(t, "keys", a.Keys, "y", "a", "z", "c")
}

// TestLoginLimit: a login token above the limit revokes the oldest one.
func TestLoginLimit(t *testing.T) {
	t.Parallel()
	logins := many(store.MaxLiveLogins, "l", login)
	a := document(append(logins, key("ci", 0))...)
	wantError(t, "a login token too many", a.Create(login("new", 5)), nil)
	for _, k := range a.Keys {
		want := time.Time{}
		if k.Name == "l000" {
			want = now.Add(5 * time.Minute)
		}
		if !k.RevokedAt.Equal(want) {
			t.Errorf("%s: got revoked at %v, want %v", k.Name, k.RevokedAt, want)
		}
	}
	wantError(t, "a login token after one ended", a.Revoke("key_l050", now), nil)
	wantError(t, "a login token after one ended", a.Create(login("newer", 6)), nil)
	if !a.Find("key_l001").RevokedAt.IsZero() {
		t.Error("a login token was revoked although there was room")
	}

	// A rotation with overlap needs room for one more: the oldest of the others.
	_, err := a.Rotate("key_l001", login("next", 7), now.Add(time.Hour))
	wantError(t, "rotation of the oldest login token", err, nil)
	if !a.Find("key_l001").RevokedAt.IsZero() || a.Find("key_l002").RevokedAt.IsZero() {
		t.Error("the rotation did not revoke the oldest of the others")
	}
}

// TestRotate: the replacement has the members of the old key, which ends at
// once or after the overlap, but not later than it would have.
func TestRotate(t *testing.T) {
	t.Parallel()
	old := key("ci", 0)
	old.Limits = []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 5, OfKey: true}}
	old.Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	next := key("other name", 1)
	next.ID, next.Abilities, next.Root = "key_next", []string{"rates"}, "key_of_the_caller"
	expires := now.Add(time.Hour)
	for _, test := range []struct {
		name                           string
		expires, ends                  time.Time
		wantRevoked, wantExpires, want time.Time
	}{
		{"without overlap", time.Time{}, now, next.CreatedAt, time.Time{}, time.Time{}},
		{"that ends at its creation", time.Time{}, next.CreatedAt, next.CreatedAt, time.Time{}, time.Time{}},
		{"with overlap", time.Time{}, expires, time.Time{}, expires, time.Time{}},
		{"of a key that ends earlier", now.Add(time.Minute * 2), expires, time.Time{}, now.Add(time.Minute * 2), now.Add(time.Minute * 2)},
		{"of a key that ends later", expires, now.Add(time.Minute * 2), time.Time{}, now.Add(time.Minute * 2), expires},
	} {
		old.ExpiresAt = test.expires
		a := document(old)
		got, err := a.Rotate(old.ID, next, test.ends)
		wantError(t, test.name, err, nil)
		was, is := a.Find(old.ID), a.Find(next.ID)
		if !was.RevokedAt.Equal(test.wantRevoked) || !was.ExpiresAt.Equal(test.wantExpires) {
			t.Errorf("rotation %s: the old key is revoked at %v and expires at %v", test.name, was.RevokedAt, was.ExpiresAt)
		}
		want := old
		want.ID, want.Hash, want.CreatedAt, want.Root, want.ExpiresAt = next.ID, next.Hash, next.CreatedAt, old.ID, test.want
		if is == nil || fmt.Sprint(*is) != fmt.Sprint(want) || fmt.Sprint(got) != fmt.Sprint(want.Key) {
			t.Errorf("rotation %s:\n got %+v and %+v\nwant %+v", test.name, got, is, want)
		}
	}
}

// TestRotateRefusals: a key that is not live or that a live key replaces is
// not rotated.
func TestRotateRefusals(t *testing.T) {
	t.Parallel()
	expired := key("expired", 0)
	expired.ExpiresAt = now.Add(time.Minute)
	full := many(store.MaxLiveKeys-2, "k", key)
	a := document(append(full, key("ci", 0), ended(key("revoked", 0), now), expired)...)
	rotate := func(id, next string, ends time.Time) error {
		_, err := a.Rotate(id, key(next, 1), ends)
		return err
	}
	for _, id := range []string{"unknown", "key_revoked", "key_expired"} {
		wantError(t, "rotation of "+id, rotate(id, "next", now), store.ErrNotFound)
	}
	later := now.Add(time.Hour)
	wantError(t, "the last overlap", rotate("key_ci", "second", later), nil)
	wantError(t, "a second replacement", rotate("key_ci", "twice", now), store.ErrReplaced)
	wantError(t, "an overlap too many", rotate("key_k000", "third", later), store.ErrTooManyKeys)
	wantError(t, "a rotation without overlap", rotate("key_k000", "third", now), nil)
	wantError(t, "revoking the replacement", a.Revoke("key_second", now.Add(2*time.Minute)), nil)
	_, err := a.Rotate("key_ci", key("again", 3), later)
	wantError(t, "a rotation after the replacement ended", err, nil)
	if root := a.Find("key_again").Root; root != "key_ci" {
		t.Errorf("the root of the second replacement is %q", root)
	}
}

// TestChangeKey: a change sets some members of a live key. A key with a
// replacement does not live longer.
func TestChangeKey(t *testing.T) {
	t.Parallel()
	first := key("ci", 0)
	first.ExpiresAt = now.Add(time.Hour)
	second := key("ci", 1)
	second.ID, second.Root = "key_second", first.ID
	revoked, expired := ended(key("revoked", 0), now), key("expired", -9)
	expired.ExpiresAt = now
	a := document(expired, first, second, key("taken", 0), revoked, login("login", 0))
	errAborted := errors.New("aborted")
	rename := func(name string) func(*store.Key) error {
		return func(k *store.Key) error { k.Name = name; return nil }
	}
	expire := func(at time.Time) func(*store.Key) error {
		return func(k *store.Key) error { k.ExpiresAt = at; return nil }
	}
	for _, test := range []struct {
		name, id string
		edit     func(*store.Key) error
		want     error
	}{
		{"an unknown key", "key_unknown", rename("x"), store.ErrNotFound},
		{"a revoked key", revoked.ID, rename("x"), store.ErrNotFound},
		{"an expired key", expired.ID, rename("x"), store.ErrNotFound},
		{"an aborted change", first.ID, func(k *store.Key) error { k.Name, k.Abilities[0] = "x", "x"; return errAborted }, errAborted},
		{"a name that is taken", second.ID, rename("taken"), store.ErrNameTaken},
		{"the name of a revoked key", second.ID, rename("revoked"), nil},
		{"the name of an expired key", second.ID, rename("expired"), nil},
		{"the name of a login token", second.ID, rename("login"), nil},
		{"a login token", "key_login", rename("taken"), nil},
		{"a later end of a replaced key", first.ID, expire(first.ExpiresAt.Add(1)), store.ErrReplaced},
		{"no end of a replaced key", first.ID, expire(time.Time{}), store.ErrReplaced},
		{"an earlier end of a replaced key", first.ID, expire(now.Add(time.Minute)), nil},
		{"an end of the replacement", second.ID, expire(now.Add(time.Minute)), nil},
		{"no end of the replacement", second.ID, expire(time.Time{}), nil},
	} {
		before, _ := book.NewStep("acc_1", a, now, now, func(*book.Account) error { return nil })
		got, err := a.ChangeKey(test.id, now, test.edit)
		if wantError(t, test.name, err, test.want); err == nil {
			if is := a.Find(test.id).Key; fmt.Sprint(got) != fmt.Sprint(is) {
				t.Errorf("%s: got %+v, stored %+v", test.name, got, is)
			}
		} else if fmt.Sprint(a.Encode()) != fmt.Sprint(before.After.Encode()) {
			t.Errorf("%s: the account has changed", test.name)
		}
	}

	kept := *a.Find(second.ID)
	_, err := a.ChangeKey(second.ID, now, func(k *store.Key) error {
		*k = store.Key{Name: k.Name, Abilities: k.Abilities, RevokedAt: now, Root: "x", Kind: token.Login}
		return nil
	})
	wantError(t, "a change of fixed members", err, nil)
	if is := *a.Find(second.ID); fmt.Sprint(is) != fmt.Sprint(kept) {
		t.Errorf("got %+v, want %+v", is, kept)
	}
}

// TestRevoke: a revocation does not change an earlier one.
func TestRevoke(t *testing.T) {
	t.Parallel()
	a := document(key("ci", 0), login("a", -5), login("b", 90))
	wantError(t, "an unknown key", a.Revoke("key_unknown", now), store.ErrNotFound)
	for _, at := range []time.Time{now, now.Add(time.Hour)} {
		wantError(t, "revoking", a.Revoke("key_ci", at), nil)
	}
	if got := a.Find("key_ci").RevokedAt; !got.Equal(now) {
		t.Errorf("revoked at %v, want %v", got, now)
	}

	// Ending all login tokens ends also one of a clock that was ahead.
	wantError(t, "ending logins", a.EndLogins(now), nil)
	wantError(t, "ending logins", a.EndLogins(now.Add(time.Hour)), nil)
	for _, k := range a.Keys {
		if !k.RevokedAt.Equal(now) {
			t.Errorf("%s is revoked at %v, want %v", k.Name, k.RevokedAt, now)
		}
	}
	wantError(t, "ending logins without an account", new(book.Account).EndLogins(now), store.ErrNotFound)
}

// step makes a step of an account that must succeed.
func step(t *testing.T, before *book.Account, at time.Time, edit func(*book.Account)) *book.Step {
	t.Helper()
	s, err := book.NewStep("acc_1", before, at, at, func(a *book.Account) error { edit(a); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func unchanged(*book.Account) {}

// TestPrune: keys that ended are kept for 90 days, at most 100 of them, and
// login tokens for 48 hours. Live ones are always kept.
func TestPrune(t *testing.T) {
	t.Parallel()
	old := func(age time.Duration, k book.Key) book.Key { return ended(k, now.Add(-age)) }
	a := document(
		key("live", -999999), old(store.RevokedFor, key("kept", 0)), old(store.RevokedFor+1, key("gone", 0)),
		login("live login", -999999), old(store.EndedLoginsFor, login("kept login", 0)), old(store.EndedLoginsFor+1, login("gone login", 0)),
	)
	s := step(t, a, now, unchanged)
	wantNames(t, "keys", s.After.Keys, "live", "kept", "live login", "kept login")
	wantNames(t, "ended keys", s.Ended, "gone", "gone login")
	if want := []string{"key_gone", "key_gone login"}; !slices.Equal(s.After.Retired, want) || len(s.After.Rows) != 0 {
		t.Errorf("got retired %q and rows %v, want %q", s.After.Retired, s.After.Rows, want)
	}
	wantNames(t, "keys before", s.Before.Keys, "live", "kept", "gone", "live login", "kept login", "gone login")

	// Of too many, those that ended first go, whatever their kind of end.
	var keys []book.Key
	for i := range store.MaxEndedKeys + 2 {
		k, l := key(fmt.Sprint("k", i), 0), login(fmt.Sprint("l", i), 0)
		keys = append(keys, old(time.Duration(i)*time.Second, k), old(time.Duration(i)*time.Second, l))
	}
	s = step(t, document(keys...), now, unchanged)
	most := store.MaxEndedKeys
	wantNames(t, "too many", s.Ended, fmt.Sprint("k", most), fmt.Sprint("l", most), fmt.Sprint("k", most+1), fmt.Sprint("l", most+1))
}

// TestPruneOfClockAhead: a clock that is a day ahead deletes no live login
// token, also if there are as many as can be.
func TestPruneOfClockAhead(t *testing.T) {
	t.Parallel()
	keys := append(many(store.MaxLiveLogins, "live", login), many(store.MaxEndedLogins, "ended", login)...)
	for i := range keys[store.MaxLiveLogins:] {
		keys[store.MaxLiveLogins+i].RevokedAt = now
	}
	s := step(t, document(keys...), now.Add(25*time.Hour), unchanged)
	for _, k := range keys[:store.MaxLiveLogins] {
		if s.After.Find(k.ID) == nil {
			t.Fatalf("%s was deleted", k.Name)
		}
	}
	if len(s.After.Keys) != store.MaxEndedLogins {
		t.Errorf("%d login tokens are kept", len(s.After.Keys))
	}
}

// TestRetired: counts go with the last key of a chain of replacements.
func TestRetired(t *testing.T) {
	t.Parallel()
	first, second := ended(key("first", 0), now.Add(-store.RevokedFor-1)), key("second", 0)
	second.Root = first.ID
	s := step(t, document(first, second), now, unchanged)
	if wantNames(t, "keys", s.After.Keys, "second"); len(s.After.Retired) > 0 {
		t.Errorf("the counts of a live key are retired: %q", s.After.Retired)
	}
	second.RevokedAt = first.RevokedAt
	s = step(t, document(first, second), now, unchanged)
	if want := []string{first.ID}; !slices.Equal(s.After.Retired, want) {
		t.Errorf("got retired %q, want %q", s.After.Retired, want)
	}
}

// TestPrunedImport: a revoked key of another system that is no longer listed
// becomes a row, and cannot be imported again for 90 days.
func TestPrunedImport(t *testing.T) {
	t.Parallel()
	keys := many(store.MaxEndedKeys, "k", key)
	for i := range keys {
		keys[i].RevokedAt = now.Add(time.Hour)
	}
	own, foreign := ended(key("own", 0), now), ended(imported("foreign", 0), now)
	s := step(t, document(append(keys, own, foreign)...), now.Add(2*time.Hour), unchanged)
	wantNames(t, "ended", s.Ended, "own", "foreign")
	if len(s.After.Rows) != 1 {
		t.Fatalf("got rows %+v, want one", s.After.Rows)
	}
	row := s.After.Rows[0]
	if want := now.Add(store.RevokedFor); row.Key != "ended "+foreign.ID || row.Value == nil || !row.Expires.Equal(want) || row.Check {
		t.Errorf("got row %+v, want it until %v", row, want)
	}

	a := document()
	wantError(t, "import", a.Import(foreign), nil)
	if len(a.Rows) != 1 || a.Rows[0].Key != row.Key || !a.Rows[0].Check || a.Rows[0].Old != nil || a.Rows[0].Value != nil {
		t.Errorf("got rows %+v, want a check of %q", a.Rows, row.Key)
	}
	wantError(t, "import of a key that is listed", a.Import(foreign), store.ErrExists)
	if len(a.Rows) != 1 {
		t.Errorf("a refused import adds rows: %+v", a.Rows)
	}
}

// TestStep: a step tells which tokens the account must get, which keys changed,
// and which ended.
func TestStep(t *testing.T) {
	t.Parallel()
	short := key("short", 0)
	short.ExpiresAt = now.Add(time.Hour)
	expired := key("expired", -99)
	expired.ExpiresAt = now.Add(-time.Minute)
	before := func() *book.Account {
		return document(expired, key("ci", 0), short, ended(key("revoked", 0), now), login("login", 0))
	}
	change := func(id string, edit func(*store.Key)) func(*book.Account) error {
		return func(a *book.Account) error {
			_, err := a.ChangeKey(id, now, func(k *store.Key) error { edit(k); return nil })
			return err
		}
	}
	for _, test := range []struct {
		name               string
		edit               func(*book.Account) error
		claims, put, ended []string
	}{
		{"nothing", func(*book.Account) error { return nil }, nil, nil, nil},
		{"the account", func(a *book.Account) error { a.Plan = "business"; return nil }, nil, nil, nil},
		{"a new key", func(a *book.Account) error { return a.Create(key("new", 0)) }, []string{"new"}, []string{"new"}, nil},
		{"a new key that has expired", func(a *book.Account) error { k := key("new", -99); k.ExpiresAt = now; return a.Create(k) }, nil, nil, nil},
		{"a revocation", func(a *book.Account) error { return a.Revoke("key_ci", now) }, nil, nil, []string{"ci"}},
		{"a second revocation", func(a *book.Account) error { return a.Revoke("key_revoked", now) }, nil, nil, nil},
		{"a revocation of an expired key", func(a *book.Account) error { return a.Revoke("key_expired", now) }, nil, nil, []string{"expired"}},
		{"logins", func(a *book.Account) error { return a.EndLogins(now) }, nil, nil, []string{"login"}},
		{"a name", change("key_ci", func(k *store.Key) { k.Name = "new name" }), nil, []string{"new name"}, nil},
		{"abilities", change("key_ci", func(k *store.Key) { k.Abilities = nil }), nil, []string{"ci"}, nil},
		{"limits", change("key_ci", func(k *store.Key) { k.Limits = make([]store.Limit, 1) }), nil, []string{"ci"}, nil},
		{"addresses", change("key_ci", func(k *store.Key) { k.Addresses = make([]netip.Prefix, 1) }), nil, []string{"ci"}, nil},
		{"an end", change("key_ci", func(k *store.Key) { k.ExpiresAt = now.Add(1) }), nil, []string{"ci"}, nil},
		{"a later end", change("key_short", func(k *store.Key) { k.ExpiresAt = k.ExpiresAt.Add(1) }), []string{"short"}, []string{"short"}, nil},
		{"no end", change("key_short", func(k *store.Key) { k.ExpiresAt = time.Time{} }), []string{"short"}, []string{"short"}, nil},
		{"a rotation", func(a *book.Account) error { _, err := a.Rotate("key_ci", key("next", 0), now); return err }, []string{"ci"}, []string{"ci"}, []string{"ci"}},
		{"a rotation with overlap", func(a *book.Account) error {
			_, err := a.Rotate("key_ci", key("next", 1), now.Add(time.Hour))
			return err
		}, []string{"ci"}, []string{"ci", "ci"}, nil},
	} {
		s, err := book.NewStep("acc_1", before(), now, now, test.edit)
		wantError(t, test.name, err, nil)
		wantNames(t, test.name+": claims", s.Claims, test.claims...)
		wantNames(t, test.name+": put", s.Put, test.put...)
		wantNames(t, test.name+": ended", s.Ended, test.ended...)
		if s.IsDeletion() || s.IsNothing() || fmt.Sprint(s.Before.Encode()) != fmt.Sprint(before().Encode()) {
			t.Errorf("%s: the document before has changed", test.name)
		}
	}
}

// TestStepOfAccount: a step creates and deletes an account. Its id and the time
// of its creation do not change.
func TestStepOfAccount(t *testing.T) {
	t.Parallel()
	errAborted := errors.New("aborted")
	if _, err := book.NewStep("acc_1", nil, now, now, func(*book.Account) error { return errAborted }); err != errAborted { // it must be the same error
		t.Errorf("an aborted step: got error %v", err)
	}
	if s := step(t, nil, now, unchanged); !s.IsNothing() || s.IsDeletion() {
		t.Errorf("a step of no account: got %+v", s)
	}
	created := step(t, nil, now, func(a *book.Account) {
		if a.Exists || a.ID != "acc_1" {
			t.Errorf("a new account: got %+v", a)
		}
		a.Exists, a.Plan, a.CreatedAt = true, "starter", now
		wantError(t, "the first key", a.Create(key("ci", 0)), nil)
		a.ID = "acc_2"
	})
	wantNames(t, "claims", created.Claims, "ci")
	if a := created.After; !a.Exists || a.ID != "acc_1" || a.Keys[0].Account != "acc_1" || created.IsNothing() || created.IsDeletion() {
		t.Errorf("created %+v", a)
	}
	changed := step(t, created.After, now, func(a *book.Account) { a.CreatedAt, a.ID = now.Add(time.Hour), "acc_2" }).After
	if changed.ID != "acc_1" || !changed.CreatedAt.Equal(now) {
		t.Errorf("got %+v, want another account as old as before", changed.Account)
	}
	deleted := step(t, changed, now, func(a *book.Account) { a.Exists = false; a.Record(store.Entry{At: now}) })
	wantNames(t, "ended", deleted.Ended, "ci")
	if !deleted.IsDeletion() || len(deleted.After.Keys) > 0 || len(deleted.After.Log) != 1 {
		t.Errorf("deletion: got %+v", deleted)
	}
}

// TestClone: changes of a clone do not change the document, and a clone has
// nothing of the step.
func TestClone(t *testing.T) {
	t.Parallel()
	a := document(key("ci", 0), login("login", 0))
	a.Overrides = []store.Override{{Limit: store.Limit{Endpoint: "convert", Period: store.Day, Max: 1}}}
	a.Log, a.Rows, a.Retired = make([]book.LogEntry, 1), make([]book.Write, 1), make([]string, 1)
	before, c := fmt.Sprint(a.Encode()), a.Clone()
	if got := fmt.Sprint(c.Encode()); got != before || len(c.Log)+len(c.Rows)+len(c.Retired) > 0 || !c.Exists {
		t.Errorf("got %+v, want %+v", c, a)
	}
	c.Overrides[0].Max, c.Plan = 2, "business"
	wantError(t, "ending logins", c.EndLogins(now), nil)
	_, err := c.ChangeKey("key_ci", now, func(k *store.Key) error { k.Abilities[0] = "spoiled"; return nil })
	wantError(t, "change", err, nil)
	if got := fmt.Sprint(a.Encode()); got != before {
		t.Errorf("a change of the clone has changed the account: %+v", a)
	}
}

// TestGrant: a grant has what account and key grant.
func TestGrant(t *testing.T) {
	t.Parallel()
	k := key("ci", 0)
	k.Abilities, k.Root = []string{"rates", "convert", "rates"}, "key_root"
	a := document(k)
	a.Overrides = make([]store.Override, 1)
	g := a.Grant(a.Keys[0])
	if g.Account != "acc_1" || g.Plan != "starter" || g.Key != k.ID || g.KeyName != "ci" || g.Abilities != "convert rates" || len(g.Terms.Overrides) != 1 || g.Restriction != nil {
		t.Errorf("got %+v", g)
	}
	a.Keys[0].Addresses = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	if r := a.Grant(a.Keys[0]).Restriction; r == nil || r.CountsAs != "key_root" || len(r.Addresses) != 1 {
		t.Errorf("got restriction %+v", r)
	}
	if g := a.Grant(nil); g.Account != "acc_1" || g.Key+g.KeyName+g.Abilities != "" || g.Restriction != nil {
		t.Errorf("without a key: got %+v", g)
	}
	if got := a.Counted(); !slices.Equal(got, []string{"key_root"}) {
		t.Errorf("counted as %q", got)
	}
}

// TestRecord: an entry is of the account, and valid text.
func TestRecord(t *testing.T) {
	t.Parallel()
	a := document()
	a.Record(store.Entry{At: now, Account: "acc_2", ActorID: "shop\xff", Target: "key\x00\xff", Reason: "why\xff", Before: []byte(`{}`)})
	p := book.Piece{Entry: &a.Log[0]}
	value, err := p.Value()
	e, ok := value.(*store.Entry)
	if err != nil || !ok || e.Account != "acc_1" || e.ActorID != "shop\uFFFD" || e.Target != "key\x00\uFFFD" || e.Reason != "why\uFFFD" || !a.Log[0].At.Equal(now) || string(e.Before) != "{}" {
		t.Errorf("got %+v, %v", value, err)
	}
}

func withID(k book.Key, id string) book.Key {
	k.ID = id
	return k
}
