package badgerstore

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/y"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// visit is called with a row. The slices are valid until it returns.
type visit func(key, value []byte) error

// view runs fn with a transaction that reads.
func (a *archive) view(fn func(*badger.Txn) error) error {
	if err := a.readable(); err != nil {
		return err
	}
	return a.db.View(fn)
}

// get returns the value of a row, nil if there is no such row.
func (a *archive) get(key []byte) (value []byte, err error) {
	err = a.view(func(txn *badger.Txn) error {
		value, err = valueTxn(txn, key)
		return err
	})
	return value, err
}

// valueTxn is get in a transaction.
func valueTxn(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return item.ValueCopy([]byte{})
}

// errFull ends a scan when it has what it looks for.
var errFull = errors.New("page is full")

// unlessFull returns the error of a scan that errFull may have ended.
func unlessFull(err error) error {
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// scan calls fn with every row below a prefix, in order.
func (a *archive) scan(prefix []byte, fn visit) error {
	return a.view(func(txn *badger.Txn) error { return scanTxn(txn, prefix, prefix, nil, fn) })
}

// counts calls fn with the counts of the holders from first to last on some
// days, which ascend. It seeks once for each of these days that has counts of
// any holder: the row behind those of the holders shows which day is next.
func (a *archive) counts(first, last string, days []calendar.Day, fn func(holder string, c store.Count)) error {
	return a.view(func(txn *badger.Txn) error {
		it := newIterator(txn, []byte{prefixCount})
		defer it.Close()
		for len(days) > 0 {
			end := countsPrefix(days[0], last)
			end[len(end)-1]++ // behind the last endpoint
			for it.Seek(countsPrefix(days[0], first)); it.Valid() && bytes.Compare(it.Item().Key(), end) < 0; it.Next() {
				if err := visitCount(it.Item(), fn); err != nil {
					return err
				}
			}
			if !it.Valid() {
				return nil
			}
			next := it.Item().Key()
			if len(next) < dayEnd {
				return fmt.Errorf("count %q: %w", next, errCorrupt)
			}
			later, _ := slices.BinarySearch(days[1:], dayOf(next))
			days = days[1+later:]
		}
		return nil
	})
}

// visitCount calls fn with the count of a row.
func visitCount(item *badger.Item, fn func(holder string, c store.Count)) error {
	holder, endpoint, err := parseCountKey(item.Key())
	if err != nil {
		return err
	}
	return item.Value(func(value []byte) error {
		used, err := parseCount(value)
		if err == nil {
			fn(holder, store.Count{Day: dayOf(item.Key()), Endpoint: endpoint, Used: used})
		}
		return err
	})
}

// readable returns an error after a failed sync: rows written since can be read
// now and lost with the power.
func (a *archive) readable() error {
	if err := a.failed(); err != nil {
		return fmt.Errorf("%w: reading: %w", store.ErrUnavailable, err)
	}
	return nil
}

// newIterator returns an iterator over the rows below a prefix.
func newIterator(txn *badger.Txn, prefix []byte) *badger.Iterator {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues = prefix, false // the values are beside the keys
	return txn.NewIterator(o)
}

// scanTxn calls fn with the rows below a prefix from start to end, to the last
// if end is nil.
func scanTxn(txn *badger.Txn, prefix, start, end []byte, fn visit) error {
	it := newIterator(txn, prefix)
	defer it.Close()
	for it.Seek(start); it.Valid(); it.Next() {
		item := it.Item()
		if end != nil && bytes.Compare(item.Key(), end) >= 0 {
			return nil
		}
		err := item.Value(func(value []byte) error { return fn(item.Key(), value) })
		if err != nil {
			return err
		}
	}
	return nil
}

// scanParallel calls fn with every row below a prefix from as many
// goroutines as there are processors, in no order.
func scanParallel(db *badger.DB, prefix []byte, fn visit) error {
	bounds := append([][]byte{prefix}, splits(db, prefix, runtime.GOMAXPROCS(0))...)
	bounds = append(bounds, nil)
	var g errgroup.Group
	for i := range len(bounds) - 1 {
		g.Go(func() error {
			return db.View(func(txn *badger.Txn) error { return scanTxn(txn, prefix, bounds[i], bounds[i+1], fn) })
		})
	}
	return g.Wait()
}

// splits returns up to parts-1 keys that divide the rows below a prefix into
// parts of about the same size. They are the first keys of tables.
func splits(db *badger.DB, prefix []byte, parts int) [][]byte {
	var begins [][]byte
	for _, t := range db.Tables() {
		if key := y.ParseKey(t.Left); bytes.HasPrefix(key, prefix) {
			begins = append(begins, key)
		}
	}
	slices.SortFunc(begins, bytes.Compare)
	begins = slices.CompactFunc(begins, bytes.Equal)
	var bounds [][]byte
	for part := 1; part < parts && len(begins) >= parts; part++ {
		bounds = append(bounds, begins[part*len(begins)/parts])
	}
	return bounds
}
