package book

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// entriesPerRead is how many entries of the log are read at once.
const entriesPerRead = 100

// EntryFilter selects entries of the audit log. Its zero value selects all.
type EntryFilter struct {
	// Accounts and Actors are ids, none for all.
	Accounts, Actors []string
	// Since is the time of the first entry, and Until that of the first one that
	// is not selected. Zero: none.
	Since, Until time.Time
	// NewestFirst lists the newest entries first instead of the oldest.
	NewestFirst bool
}

func (f EntryFilter) selects(e store.Entry) bool {
	return !e.At.Before(f.Since) && (f.Until.IsZero() || e.At.Before(f.Until)) &&
		(len(f.Accounts) == 0 || slices.Contains(f.Accounts, e.Account)) && (len(f.Actors) == 0 || slices.Contains(f.Actors, e.ActorID))
}

// ListEntries returns up to limit entries of the audit log: those that the filter
// selects, and that follow a position in its order. The zero EntryID is before all
// entries in both orders.
func (b *Book) ListEntries(ctx context.Context, filter EntryFilter, from store.EntryID, limit int) ([]store.Entry, error) {
	list, _, err := b.SomeEntries(ctx, filter, from, limit, func() bool { return false })
	return list, err
}

// beforeSince returns the last position that is before a time or too old.
func (b *Book) beforeSince(since time.Time) store.EntryID {
	ms := max(since.UnixMilli(), b.now().AddDate(0, 0, -store.ReportsFor).UnixMilli(), 0)
	return store.EntryID{Milliseconds: ms - 1, Number: math.MaxInt64}
}

// SomeEntries is ListEntries that ends early if enough returns true. Then next is
// the position for the next call.
func (b *Book) SomeEntries(ctx context.Context, filter EntryFilter, from store.EntryID, limit int, enough func() bool) (list []store.Entry, next store.EntryID, err error) {
	after, before := b.beforeSince(filter.Since), from
	if !filter.NewestFirst {
		before = store.EntryID{}
		if from.Compare(after) > 0 {
			after = from
		}
	}
	for {
		page, err := b.Entries(ctx, after, before, filter.NewestFirst, entriesPerRead)
		if err != nil {
			return nil, next, err
		}
		for _, l := range page {
			if len(list) == limit {
				return list, next, nil
			}
			e, err := decodeEntry(l)
			if err != nil {
				return nil, next, err
			}
			if filter.selects(e) {
				list = append(list, e)
			}
		}
		if len(page) < entriesPerRead {
			return list, next, nil
		}
		last := page[len(page)-1].ID
		if enough() {
			return list, last, nil
		}
		if filter.NewestFirst {
			before = last
		} else {
			after = last
		}
		if err := context.Cause(ctx); err != nil {
			return nil, next, err
		}
	}
}

func decodeEntry(l LogEntry) (store.Entry, error) {
	var e store.Entry
	if err := decode(l.Value, &e); err != nil {
		return e, fmt.Errorf("entry %s of the audit log: %w", l.ID, err)
	}
	e.ID = l.ID
	return e, nil
}
