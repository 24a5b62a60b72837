package memstore

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// rows are those of a space by key.
type rows map[string]book.Row

// rowsOf returns the rows of a space.
func (e *engine) rowsOf(of book.Space) rows {
	of.Handle = 0
	if e.spaces[of] == nil {
		e.spaces[of] = rows{}
	}
	return e.spaces[of]
}

// get returns a row, without a Value if there is none or it has expired.
func (r rows) get(key string) book.Row {
	if row := r[key]; row.Expires.IsZero() || time.Now().Before(row.Expires) {
		return book.Row{Key: key, Value: row.Value, Expires: row.Expires}
	}
	return book.Row{Key: key}
}

// all returns the rows whose keys are not before from and before to, all behind
// from if to is empty, in the order of their keys.
func (r rows) all(from, to string) iter.Seq[book.Row] {
	return func(yield func(book.Row) bool) {
		for _, key := range slices.Sorted(maps.Keys(r)) {
			row := r.get(key)
			if row.Value != nil && key >= from && (to == "" || key < to) && !yield(row) {
				return
			}
		}
	}
}

// commit makes all writes, or none if a row is not as expected.
func (r rows) commit(writes []book.Write) bool {
	for _, w := range writes {
		if value := r.get(w.Key).Value; w.Check && !sameValue(value, w.Old) {
			return false
		}
	}
	for _, w := range writes {
		r[w.Key] = w.Row
	}
	return true
}

func (e *engine) GetRows(_ context.Context, of book.Space, keys ...string) (list []book.Row, err error) {
	defer e.lock()()
	for _, key := range keys {
		list = append(list, e.rowsOf(of).get(key))
	}
	return list, nil
}

func (e *engine) Scan(_ context.Context, limit int, ranges ...book.Range) ([][]book.Row, error) {
	defer e.lock()()
	lists := make([][]book.Row, len(ranges))
	for i, r := range ranges {
		all := slices.Collect(e.rowsOf(r.Space).all(r.From, r.To))
		lists[i] = all[:min(len(all), limit)]
		limit -= len(lists[i])
	}
	return lists, nil
}

func (e *engine) Commit(_ context.Context, batches ...book.Batch) []error {
	defer e.lock()()
	errs := make([]error, len(batches))
	for i, b := range batches {
		exists := b.Account == "" || e.find(b.Account, b.Handle) != nil
		if exists && !e.rowsOf(b.Space).commit(b.Writes) {
			errs[i] = book.ErrConflict
		}
	}
	return errs
}

// sameValue tells whether two values are equal. Nil is none.
func sameValue(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
