package book

import (
	"context"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Renamed returns the book with the names of a configuration: its documents,
// bills and credits have the names of today. All else has the names of the store,
// under which calls are counted.
func (b *Book) Renamed(names store.Names) *Book {
	today := *b
	today.names = names
	return &today
}

// translate gives the limits and abilities of a document other names.
func (b *Book) translate(a *Account, to func(store.Renames, string) string) {
	if b.names.Endpoints.None() {
		return
	}
	a.Terms = b.names.Terms(a.Terms, to)
	for _, k := range a.Keys {
		k.Limits, k.Abilities = b.names.Limits(k.Limits, to), b.names.AbilitiesOf(k.Abilities, to)
	}
}

// Get is that of the engine, with the plan of now.
func (b *Book) Get(ctx context.Context, id string) (*Account, error) {
	a, err := b.Engine.Get(ctx, id)
	if err == nil {
		b.translate(a, store.Renames.Today)
		a.renew(b.now())
	}
	return a, err
}

// List is that of the engine, with the plans of now.
func (b *Book) List(ctx context.Context, after string, limit int, keys bool) ([]*Account, error) {
	list, err := b.Engine.List(ctx, after, limit, keys)
	now := b.now()
	for _, a := range list {
		b.translate(a, store.Renames.Today)
		a.renew(now)
	}
	return list, err
}
