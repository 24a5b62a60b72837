package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// begin makes room for the counts of a new account.
func (e *engine) begin(id string) {
	counts := map[counter]int64{}
	for c, used := range e.counts[id] {
		if closed, kept := store.AfterClosing(c.key); kept {
			c.key = closed
		}
		counts[c] += used
	}
	e.counts[id] = counts
}

func (e *engine) Change(_ context.Context, at time.Time, ids []string, edit func(int, *book.Account) error) []error {
	defer e.lock()()
	errs := make([]error, len(ids))
	for i, id := range ids {
		errs[i] = e.change(at, id, func(a *book.Account) error { return edit(i, a) })
	}
	return errs
}

func (e *engine) change(at time.Time, id string, edit func(*book.Account) error) error {
	a := e.accounts[id]
	isNew := a == nil
	if isNew {
		e.lastHandle++
		a = &account{handle: e.lastHandle, buckets: map[pace]store.Bucket{}}
	}
	step, err := book.NewStep(id, a.Account, at, time.Now(), edit)
	if err != nil {
		return err
	}
	for _, k := range step.Claims {
		if other := e.accounts[e.holders[k.Hash]]; other != nil && other.ID != id {
			if own := other.Holding(k.Hash, at); own != nil && own.Live(at) {
				return store.ErrTokenTaken
			}
		}
	}
	rows := e.rowsOf(book.Space{Account: id})
	if !rows.commit(step.After.Rows) {
		return book.ErrConflict
	}

	for _, k := range step.Claims {
		e.holders[k.Hash] = id
	}
	maps.DeleteFunc(a.counts, func(c counter, _ int64) bool { return slices.Contains(step.After.Retired, c.key) })
	for _, l := range step.After.Log {
		e.lastID = e.lastID.Next(l.At)
		l.ID = e.lastID
		e.log = append(e.log, l)
	}
	if !step.After.Exists {
		delete(e.accounts, id)
		// The counts of the account stay, those of its keys and totals do not.
		maps.DeleteFunc(e.counts[id], func(c counter, _ int64) bool {
			return !slices.Contains(store.OwnCounts, c.key) || c.Day == store.TotalDay
		})
		maps.DeleteFunc(rows, func(key string, _ book.Row) bool { return !strings.HasPrefix(key, book.KeptPrefix) })
		return nil
	}
	if isNew {
		e.begin(id)
	}
	a.Account, a.counts = step.After.Clone(), e.counts[id]
	e.accounts[id] = a
	return nil
}
