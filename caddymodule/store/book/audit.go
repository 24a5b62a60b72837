package book

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// entriesPerRead is how many entries of the log are read at once.
const entriesPerRead = 100

// ListEntries returns up to limit entries of the audit log, oldest first: those
// since a time, after the position after, and of one account unless account is
// empty.
func (b *Book) ListEntries(ctx context.Context, account string, since time.Time, after store.EntryID, limit int) ([]store.Entry, error) {
	if first := b.beforeSince(since); first.Compare(after) > 0 {
		after = first
	}
	return b.listEntries(ctx, account, since, after, store.EntryID{}, false, limit)
}

// LastEntries is ListEntries from the end: it returns entries newest first,
// those before a position. The zero EntryID is behind all entries.
func (b *Book) LastEntries(ctx context.Context, account string, since time.Time, before store.EntryID, limit int) ([]store.Entry, error) {
	return b.listEntries(ctx, account, since, b.beforeSince(since), before, true, limit)
}

// beforeSince returns the last position that is before a time or too old.
func (b *Book) beforeSince(since time.Time) store.EntryID {
	ms := max(since.UnixMilli(), b.now().AddDate(0, 0, -store.ReportsFor).UnixMilli(), 0)
	return store.EntryID{Milliseconds: ms - 1, Number: math.MaxInt64}
}

func (b *Book) listEntries(ctx context.Context, account string, since time.Time, after, before store.EntryID, reverse bool, limit int) (list []store.Entry, err error) {
	for {
		page, err := b.Entries(ctx, after, before, reverse, entriesPerRead)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if len(list) == limit {
				return list, nil
			}
			e, err := decodeEntry(l)
			if err != nil {
				return nil, err
			}
			if !e.At.Before(since) && (account == "" || account == e.Account) {
				list = append(list, e)
			}
		}
		if len(page) < entriesPerRead {
			return list, nil
		}
		if last := page[len(page)-1].ID; reverse {
			before = last
		} else {
			after = last
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
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
