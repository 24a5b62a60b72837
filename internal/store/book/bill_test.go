package book_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// reading is an engine that calls a function after the next read of an account.
type reading struct {
	book.Engine
	next func()
}

func (r *reading) after() {
	if next := r.next; next != nil {
		r.next = nil
		next()
	}
}

func (r *reading) Get(ctx context.Context, id string) (*book.Account, error) {
	defer r.after()
	return r.Engine.Get(ctx, id)
}

func (r *reading) CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) ([]store.StoredCount, error) {
	defer r.after()
	return r.Engine.CountsOfAccounts(ctx, accounts, first, last)
}

// TestRenewedDuringDump: a dump has the counts of a closed account whose id another
// one gets meanwhile.
func TestRenewedDuringDump(t *testing.T) {
	t.Parallel()
	e := &reading{Engine: memstore.New()}
	b := book.New(e, slog.New(slog.DiscardHandler))
	called(t, b, 5)
	if err := closing(t, b); err != nil {
		t.Fatal(err)
	}
	e.next = func() { called(t, b, 1) }
	used := map[string]int64{}
	err := b.Dump(t.Context(), func(p book.Piece) error {
		if p.Count != nil {
			used[p.Count.Key] += p.Count.Used
		}
		return nil
	})
	if err != nil || used[""]+used[store.Closed] < 5 {
		t.Errorf("got %v, %v, want 5 calls", used, err)
	}
}

// TestRenewedDuringClosing: an account without calls leaves nothing, but not less
// than the next account with its id, which is closed at the same time.
func TestRenewedDuringClosing(t *testing.T) {
	t.Parallel()
	e := &reading{Engine: memstore.New()}
	b := book.New(e, slog.New(slog.DiscardHandler))
	if _, err := storetest.PutAccount(t.Context(), b, store.Account{ID: "acc_1", Plan: "free"}); err != nil {
		t.Fatal(err)
	}
	var err error
	last := func() { called(t, b, 5); err = closing(t, b) }
	// The account, what it called this month, and what it called at all.
	e.next = func() { e.next = func() { e.next = last } }
	if first := closing(t, b); first != nil || err != nil {
		t.Fatalf("got %v and %v", first, err)
	}
	if bill := billed(t, b); bill.Plan != "starter" || bill.Calls != 5 {
		t.Errorf("got the bill %+v", bill)
	}
}
