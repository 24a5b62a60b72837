package book

import (
	"context"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Renamed returns the book with the names of a configuration: what it returns
// and takes has the names of today. Rows, refused calls, events and the log stay
// as they are, and so do the abilities of grants: the plan of a call translates
// them, with a cache.
func (b *Book) Renamed(names store.Names) *Book {
	if names.Endpoints.None() {
		return b
	}
	today := *b
	today.Engine = &renamed{b.Engine, b, names}
	return &today
}

// AsStored returns the book with the names of the store.
func (b *Book) AsStored() *Book {
	if r, is := b.Engine.(*renamed); is {
		return r.stored
	}
	return b
}

// names returns the names of Renamed.
func (b *Book) names() (names store.Names) {
	if r, is := b.Engine.(*renamed); is {
		names = r.names
	}
	return names
}

// renamed is an engine with the names of a configuration.
type renamed struct {
	Engine
	stored *Book
	names  store.Names
}

// Now implements store.Clock.
func (r *renamed) Now() time.Time { return now(r.Engine) }

// Since implements store.Clock.
func (r *renamed) Since(t time.Time) time.Duration { return now(r.Engine).Sub(t) }

// translate returns a list with other names, and whether one has changed. It does
// not change the list.
func translate[T any](list []T, to func(string) string, name func(*T) *string) (translated []T, changed bool) {
	for i := range list {
		if old := *name(&list[i]); to(old) != old {
			if !changed {
				list, changed = slices.Clone(list), true
			}
			*name(&list[i]) = to(old)
		}
	}
	return list, changed
}

// limits translates limits, or overrides. Of those that become the same, the
// last one stays.
func limits[T any](list []T, to func(string) string, limit func(*T) *store.Limit) []T {
	translated, changed := translate(list, to, func(l *T) *string { return &limit(l).Endpoint })
	if !changed {
		return list
	}
	kept := make([]T, 0, len(list))
	for i, l := range translated {
		if !slices.ContainsFunc(translated[i+1:], func(later T) bool { return limit(&later).Same(*limit(&l)) }) {
			kept = append(kept, l)
		}
	}
	return kept
}

func overrides(list []store.Override, to func(string) string) []store.Override {
	return limits(list, to, func(o *store.Override) *store.Limit { return &o.Limit })
}

func ownLimits(list []store.Limit, to func(string) string) []store.Limit {
	return limits(list, to, func(l *store.Limit) *store.Limit { return l })
}

// translate gives the limits and abilities of a document other names.
func (a *Account) translate(endpoint, ability func(string) string) {
	a.Overrides = overrides(a.Overrides, endpoint)
	for _, k := range a.Keys {
		k.Limits = ownLimits(k.Limits, endpoint)
		if abilities, changed := translate(k.Abilities, ability, func(name *string) *string { return name }); changed {
			slices.Sort(abilities)
			k.Abilities = slices.Compact(abilities)
		}
	}
}

func (r *renamed) today(a *Account) {
	a.translate(r.names.Endpoints.Today, r.names.Abilities.Today)
}

// grant gives the limits of a grant the names of today.
func (r *renamed) grant(g store.Grant, err error) (store.Grant, error) {
	g.Overrides = overrides(g.Overrides, r.names.Endpoints.Today)
	if own := g.Restriction; own != nil {
		translated := *own
		translated.Limits = ownLimits(own.Limits, r.names.Endpoints.Today)
		g.Restriction = &translated
	}
	return g, err
}

// Grant implements store.Grants.
func (r *renamed) Grant(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return r.grant(r.Engine.Grant(ctx, hash, now))
}

// Confirm implements store.Grants.
func (r *renamed) Confirm(ctx context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return r.grant(r.Engine.Confirm(ctx, hash, now))
}

// GrantAccount implements store.Grants.
func (r *renamed) GrantAccount(ctx context.Context, account string, fresh bool) (store.Grant, error) {
	return r.grant(r.Engine.GrantAccount(ctx, account, fresh))
}

// Take implements store.Counter. Limits keep their names: an engine does not
// read them.
func (r *renamed) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	call.Endpoint = r.names.Endpoints.Oldest(call.Endpoint)
	return r.Engine.Take(ctx, call, limits, rooms)
}

// Rooms implements store.Counter.
func (r *renamed) Rooms(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) error {
	call.Endpoint = r.names.Endpoints.Oldest(call.Endpoint)
	return r.Engine.Rooms(ctx, call, limits, rooms)
}

// Settle implements store.Counter.
func (r *renamed) Settle(ctx context.Context, call store.Call, cost int64) error {
	call.Endpoint = r.names.Endpoints.Oldest(call.Endpoint)
	return r.Engine.Settle(ctx, call, cost)
}

// Counts implements Engine.
func (r *renamed) Counts(ctx context.Context, account, key string, first, last calendar.Day) ([]store.Count, error) {
	list, err := r.Engine.Counts(ctx, account, key, first, last)
	return sum(list, r.names, func(c *store.Count) *store.Count { return c }), err
}

// CountsOfAccounts implements Engine.
func (r *renamed) CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) ([]store.StoredCount, error) {
	list, err := r.Engine.CountsOfAccounts(ctx, accounts, first, last)
	return sum(list, r.names, func(c *store.StoredCount) *store.Count { return &c.Count }), err
}

// sum gives counts the names of today. Calls that were counted under another
// older name, such as before the configuration got the option rename, are added.
func sum[T comparable](list []T, names store.Names, count func(*T) *store.Count) []T {
	sums := make(map[T]int64, len(list))
	for _, c := range list {
		n := count(&c)
		used := n.Used
		n.Endpoint, n.Used = names.Endpoints.Today(n.Endpoint), 0
		sums[c] += used
	}
	list = make([]T, 0, len(sums))
	for c, used := range sums {
		count(&c).Used = used
		list = append(list, c)
	}
	return list
}

// Credit implements Engine.
func (r *renamed) Credit(ctx context.Context, account string, keys []string, day calendar.Day, endpoint string, total int64) error {
	return r.Engine.Credit(ctx, account, keys, day, r.names.Endpoints.Oldest(endpoint), total)
}

// Change implements Engine.
func (r *renamed) Change(ctx context.Context, at time.Time, ids []string, edit func(i int, a *Account) error) []error {
	return r.Engine.Change(ctx, at, ids, func(i int, a *Account) error {
		r.today(a)
		err := edit(i, a)
		a.translate(r.names.Endpoints.Oldest, r.names.Abilities.Oldest)
		return err
	})
}

// Get implements Engine.
func (r *renamed) Get(ctx context.Context, id string) (*Account, error) {
	a, err := r.Engine.Get(ctx, id)
	if err == nil {
		r.today(a)
	}
	return a, err
}

// List implements Engine.
func (r *renamed) List(ctx context.Context, after string, limit int, keys bool) ([]*Account, error) {
	list, err := r.Engine.List(ctx, after, limit, keys)
	for _, a := range list {
		r.today(a)
	}
	return list, err
}
