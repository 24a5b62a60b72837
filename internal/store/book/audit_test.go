package book_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// TestEntries: the audit log is read in parts, by account and from both ends.
func TestEntries(t *testing.T) {
	t.Parallel()
	b, _ := open(t)
	for i := range 350 {
		err := b.ChangeOne(t.Context(), now, fmt.Sprint("acc_", i%100), func(a *book.Account) error {
			a.Exists = true
			a.Record(store.Entry{At: today.Add(time.Duration(i) * time.Second), Target: fmt.Sprint(i)})
			return nil
		})
		wantError(t, "recording", err, nil)
	}
	targets := func(list []store.Entry, err error) (got []string) {
		wantError(t, "reading", err, nil)
		for _, e := range list {
			got = append(got, e.Target)
		}
		return got
	}
	ctx, all := t.Context(), store.EntryID{}
	for want, got := range map[string][]string{
		"[7 107 207 307]": targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_7"}}, all, 9)),
		"[7 107]":         targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_7"}}, all, 2)),
		"[307 207]":       targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_7"}, NewestFirst: true}, all, 2)),
		"[349 348]":       targets(b.ListEntries(ctx, book.EntryFilter{NewestFirst: true}, all, 2)),
		"[348 349]":       targets(b.ListEntries(ctx, book.EntryFilter{Since: today.Add(348 * time.Second)}, all, 9)),
		"[]":              targets(b.ListEntries(ctx, book.EntryFilter{Accounts: []string{"acc_unknown"}}, all, 9)),
	} {
		if fmt.Sprint(got) != want {
			t.Errorf("got entries %q, want %s", got, want)
		}
	}
	if list, err := b.ListEntries(ctx, book.EntryFilter{}, all, 1000); err != nil || len(list) != 350 {
		t.Errorf("got %d entries, %v", len(list), err)
	}
}
