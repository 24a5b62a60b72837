package book

import (
	"context"
	"errors"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Errors of top-ups.
var (
	// ErrOtherTopUp means that a top-up with this id was for another endpoint,
	// number of calls or end.
	ErrOtherTopUp = errors.New("there is another top-up with this id")

	// ErrTooManyTopUps means that the account has store.MaxTopUps with an end.
	ErrTooManyTopUps = errors.New("too many top-ups that end")
)

// TopUp is calls that are added to a total of an account.
type TopUp struct {
	Endpoint  string    `cbor:"1,keyasint" json:"endpoint"`
	Calls     int64     `cbor:"2,keyasint" json:"calls"`
	ExpiresAt time.Time `cbor:"3,keyasint,omitzero" json:"expires_at,omitzero"` // zero for never
}

// topUpPrefix begins the keys of the rows of top-ups, before their id. They are
// kept as long as the account.
const topUpPrefix = "topup "

// TopUp adds calls to the total of an endpoint, or of store.All. except is the
// endpoint that this one does not cover. A top-up is made once for an id: for the
// same one again, nothing changes. check can refuse it. record is
// called in the step that makes it. It returns the account behind it, and what the
// total has used. The errors
// are store.ErrNotFound without an account, that of check, ErrOtherTopUp and
// ErrTooManyTopUps.
func (b *Book) TopUp(ctx context.Context, at time.Time, account, id string, t TopUp, except string, check func(a *Account) error, record func(a *Account)) (after *Account, used int64, err error) {
	stored := t
	stored.Endpoint, stored.ExpiresAt = b.names.Endpoints.Oldest(t.Endpoint), t.ExpiresAt.UTC()
	err = retry(ctx, func() error {
		var before TopUp
		found, err := b.readRow(ctx, Space{Account: account}, topUpPrefix+id, &before)
		if err != nil {
			return err
		}
		if found && (before.Endpoint != stored.Endpoint || before.Calls != stored.Calls || !before.ExpiresAt.Equal(stored.ExpiresAt)) {
			return ErrOtherTopUp
		}
		seen, err := b.Get(ctx, account)
		if err != nil {
			return err
		}
		if used, err = b.prepaid(ctx, account, stored.Endpoint, except); err != nil {
			return err
		}
		if found {
			after = seen
			return nil
		}
		err = b.ChangeOne(ctx, at, account, func(a *Account) error {
			if !a.Exists {
				return store.ErrNotFound
			}
			if err := check(a); err != nil {
				return err
			}
			p := a.PrepaidOf(t.Endpoint)
			if !settledAs(p, seen.PrepaidOf(t.Endpoint)) {
				return ErrConflict
			}
			if p == nil {
				a.Prepaid = append(a.Prepaid, store.Prepaid{Endpoint: t.Endpoint})
				p = &a.Prepaid[len(a.Prepaid)-1]
			}
			p.Settle(used, at)
			if n := len(p.TopUps); !t.ExpiresAt.IsZero() && n >= store.MaxTopUps && !p.TopUps[store.MaxTopUps-1].ExpiresAt.IsZero() {
				return ErrTooManyTopUps
			}
			p.Add(store.TopUp{Calls: t.Calls, ExpiresAt: t.ExpiresAt}, at)
			a.Rows = append(a.Rows, Write{Row: Row{Key: topUpPrefix + id, Value: encode(stored)}, Check: true})
			record(a)
			after = a.Clone()
			return nil
		})
		if errors.Is(err, store.ErrExists) { // another gate has just made it
			return ErrConflict
		}
		return err
	})
	return after, used, err
}

// EndTopUps ends the top-ups of an account that have ended at a time: what is left
// of them is gone. except is the endpoint that store.All does not cover. The gate
// counts no call until it is done.
func (b *Book) EndTopUps(ctx context.Context, account, except string, at time.Time) error {
	seen, err := b.Get(ctx, account)
	if err != nil || !seen.Lapsed(at) {
		return err
	}
	used := map[string]int64{}
	for _, p := range seen.Prepaid {
		if used[p.Endpoint], err = b.prepaid(ctx, account, b.names.Endpoints.Oldest(p.Endpoint), except); err != nil {
			return err
		}
	}
	return b.ChangeOne(ctx, at, account, func(a *Account) error {
		for _, before := range seen.Prepaid {
			// Otherwise another gate has settled it, perhaps with a later count.
			if p := a.PrepaidOf(before.Endpoint); p != nil && settledAs(p, &before) {
				p.Settle(used[before.Endpoint], at)
			}
		}
		return nil
	})
}

// settledAs tells whether a total was not settled since it was read. Otherwise the
// count that was read with it can be older than the last one.
func settledAs(p, before *store.Prepaid) bool {
	if p == nil || before == nil {
		return p == before
	}
	return p.Counted == before.Counted && p.Since.Equal(before.Since)
}

// prepaid is what the total of an endpoint of the store, or of store.All, has used.
func (b *Book) prepaid(ctx context.Context, account, endpoint, except string) (used int64, err error) {
	counts, err := b.Counts(ctx, account, "", store.TotalDay, store.TotalDay)
	for _, c := range counts {
		if c.Endpoint == endpoint || endpoint == store.All && c.Endpoint != except {
			used = store.Sum(used, c.Used)
		}
	}
	return used, err
}
