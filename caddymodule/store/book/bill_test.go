package book_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/memstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
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
