package book_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestImportKeys: a token that another account has does not stop the other
// keys of the account, nor take a name from them.
func TestImportKeys(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "acc_1", "acc_2", "acc_3")
	of := func(account, name, secret string) book.Key {
		k := key(name, 0)
		k.Account, k.Hash = account, hashOf(secret)
		k.ID = token.IDOf(account, k.Hash)
		return k
	}
	var recorded []string
	run := func(keys ...book.Key) []error {
		recorded = nil
		return b.ImportKeys(t.Context(), now, keys, func(a *book.Account, k *book.Key) {
			a.Record(store.Entry{At: today, Target: k.ID})
			recorded = append(recorded, k.ID)
		})
	}
	wantError(t, "the first import", run(of("acc_2", "ci", "taken"))[0], nil)
	keys := []book.Key{
		of("acc_1", "ci", "taken"), of("acc_1", "ci", "free"), of("acc_1", "ci", "third"), of("acc_3", "ci", "other"),
		of("acc_unknown", "ci", "unknown"), of("acc_1", "web", "fourth"), of("acc_1", "web again", "fourth"),
	}
	errs := run(keys...)
	for i, want := range []error{store.ErrTokenTaken, nil, store.ErrNameTaken, nil, store.ErrNotFound, nil, store.ErrExists} {
		wantError(t, fmt.Sprint("key ", i), errs[i], want)
	}
	list, err := b.ListEntries(t.Context(), book.EntryFilter{}, store.EntryID{}, 99)
	if err != nil || len(list) != 4 {
		t.Errorf("got entries %+v, %v, want one of each key that was added", list, err)
	}
	holder, err := b.Holder(t.Context(), hashOf("taken"), now)
	if err != nil || holder != "acc_2" {
		t.Errorf("the token belongs to %q, %v", holder, err)
	}
	for i, err := range run(keys[1], keys[2], keys[5]) {
		want := []error{store.ErrExists, store.ErrNameTaken, store.ErrExists}[i]
		wantError(t, fmt.Sprint("key again ", i), err, want)
	}
	if len(recorded) > 0 {
		t.Errorf("recorded %q", recorded)
	}
}

// TestImportOfPruned: a revoked key of another system that is no longer listed
// is not made live by an import, and its counts are gone.
func TestImportOfPruned(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "acc_1")
	foreign := imported("foreign", 0)
	foreign.CreatedAt = today
	other := imported("other", 0)
	imports := func(keys ...book.Key) []error {
		return b.ImportKeys(t.Context(), today, keys, func(*book.Account, *book.Key) {})
	}
	wantError(t, "import", imports(foreign)[0], nil)
	for i := range store.MaxEndedKeys {
		err := b.ChangeOne(t.Context(), today, "acc_1", func(a *book.Account) error {
			k := key(fmt.Sprint("k", i), 0)
			k.CreatedAt = today
			if err := a.Create(k); err != nil {
				return err
			}
			return a.Revoke(k.ID, today.Add(time.Second))
		})
		wantError(t, "replacing keys", err, nil)
	}
	wantError(t, "revoking", b.ChangeOne(t.Context(), today, "acc_1", func(a *book.Account) error { return a.Revoke(foreign.ID, today) }), nil)
	_, err := b.Key(t.Context(), "acc_1", foreign.ID)
	wantError(t, "the key in the list", err, store.ErrNotFound)
	errs := imports(foreign, other)
	wantError(t, "another import", errs[0], store.ErrExists)
	wantError(t, "another key of that import", errs[1], nil)
	_, err = b.Grant(t.Context(), foreign.Hash, today)
	wantError(t, "the revoked token", err, store.ErrNoGrant)
}

// TestRefused: calls add up by day, account, endpoint and code, without an
// overflow, and days that are no longer kept are not listed.
func TestRefused(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	day := calendar.UTCDay(time.Now())
	row := func(ago calendar.Day, account string, calls int64) store.Refused {
		return store.Refused{Day: day - ago, Account: account, Endpoint: "convert", Code: "quota_exceeded", Calls: calls}
	}
	var many []store.Refused
	for i := range 1200 {
		many = append(many, row(2, fmt.Sprintf("acc_%04d", i), 1))
	}
	for range 2 {
		wantError(t, "adding", (&storetest.Store{Book: b}).AddRefused(t.Context(), append(many, row(0, "acc_1", 1<<62), row(500, "acc_1", 1), row(-1, "acc_1", 3))), nil)
	}
	list, err := b.ListRefused(t.Context(), "acc_1", 0, day+9, store.Refused{}, 9)
	want := []store.Refused{row(0, "acc_1", 1<<63-1), row(-1, "acc_1", 6)}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("got %+v, %v, want %+v", list, err, want)
	}
	list, err = b.ListRefused(t.Context(), "", day-2, day-2, many[1100], 9999)
	if err != nil || len(list) != 99 || list[0] != row(2, "acc_1101", 2) {
		t.Errorf("got %d rows, %v", len(list), err)
	}
}
