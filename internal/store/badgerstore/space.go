package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// GetRows implements book.Engine.
func (s *Store) GetRows(_ context.Context, of book.Space, keys ...string) ([]book.Row, error) {
	list := make([]book.Row, len(keys))
	err := s.ledger.Use(func() error {
		return s.archive.view(func(txn *badger.Txn) error {
			for i, key := range keys {
				list[i].Key = key
				item, err := txn.Get(rowKey(of, key))
				if errors.Is(err, badger.ErrKeyNotFound) {
					continue
				}
				if err == nil {
					list[i], err = rowOf(item, len(rowKey(of, "")))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	return list, err
}

// Scan implements book.Engine.
func (s *Store) Scan(_ context.Context, limit int, ranges ...book.Range) ([][]book.Row, error) {
	lists := make([][]book.Row, len(ranges))
	err := s.ledger.Use(func() error {
		return s.archive.view(func(txn *badger.Txn) error {
			it := newIterator(txn, nil)
			defer it.Close()
			for i, r := range ranges {
				prefix, end := rowKey(r.Space, ""), rowKey(r.Space, r.To)
				if r.To == "" {
					end[len(end)-1]++ // behind the last row
				}
				for it.Seek(rowKey(r.Space, r.From)); limit > 0 && it.Valid() && bytes.Compare(it.Item().Key(), end) < 0; it.Next() {
					row, err := rowOf(it.Item(), len(prefix))
					if err != nil {
						return err
					}
					lists[i] = append(lists[i], row)
					limit--
				}
			}
			return nil
		})
	})
	return lists, err
}

// rowOf returns the row of an item. Its key begins behind the prefix.
func rowOf(item *badger.Item, prefix int) (book.Row, error) {
	value, err := item.ValueCopy([]byte{})
	return book.Row{Key: string(item.Key()[prefix:]), Value: value, Expires: expiresAt(item.ExpiresAt())}, err
}

// Commit implements book.Engine.
func (s *Store) Commit(_ context.Context, batches ...book.Batch) []error {
	errs, promise := make([]error, len(batches)), soon
	if slices.ContainsFunc(batches, func(b book.Batch) bool { return !b.Lossy }) {
		promise = logged
	}
	err := s.ledger.Use(func() error {
		return s.archive.writeChecked(promise, func() (changes []change, err error) {
			for i, b := range batches {
				if b.Account != "" && (s.ledger.Deleted(b.Account, b.Handle) || !s.ledger.Exists(b.Account)) {
					continue
				}
				var of []change
				if of, errs[i] = s.archive.checked(b); errs[i] == nil && len(of) > 0 {
					of[0].joined = false
					changes = append(changes, of...)
				}
			}
			return changes, nil
		})
	})
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// same tells whether two values are equal. Nil is none.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// checked returns the rows of a batch, or book.ErrConflict if a row is not as the
// batch expects it. mu is held.
func (a *archive) checked(b book.Batch) (changes []change, err error) {
	for _, w := range b.Writes {
		key := rowKey(b.Space, w.Key)
		if w.Check {
			value, err := a.get(key)
			if err != nil {
				return nil, err
			}
			if !same(value, w.Old) {
				return nil, book.ErrConflict
			}
		}
		changes = append(changes, change{key: key, value: w.Value, expires: w.Expires, joined: true})
	}
	return changes, nil
}
