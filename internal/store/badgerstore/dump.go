package badgerstore

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Dump implements book.Engine. All pieces are of one instant. It fails with
// store.ErrClosed when the store is closed meanwhile.
func (s *Store) Dump(ctx context.Context, spaces []book.Space, write func(book.Piece) error) error {
	// An account that is deleted and created again before the snapshot could get
	// the counts of the deleted one, because they are moved in the log.
	unlock := sync.OnceFunc(s.lockAll())
	defer unlock()
	return s.ledger.Use(func() error {
		if err := s.archive.readable(); err != nil {
			return err
		}
		txn, err := s.journal.snapshot()
		if err != nil {
			return fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
		}
		defer txn.Discard()
		unlock()
		d := &dump{txn: txn, exists: map[string]bool{}}
		d.write = func(p book.Piece) error {
			select {
			case <-s.stop:
				return store.ErrClosed
			case <-ctx.Done():
				return context.Cause(ctx)
			default:
				return write(p)
			}
		}
		return d.run(spaces)
	})
}

// dump writes the pieces of a transaction.
type dump struct {
	txn    *badger.Txn
	write  func(book.Piece) error
	exists map[string]bool // of the accounts
}

func (d *dump) run(spaces []book.Space) error {
	if err := d.scan(prefixAccount, d.document); err != nil {
		return err
	}
	if err := d.scan(prefixCount, d.count); err != nil {
		return err
	}
	if err := d.rows([]byte{prefixRow}); err != nil {
		return err
	}
	for _, of := range spaces {
		if err := d.rows(rowKey(of, "")); err != nil {
			return err
		}
	}
	return d.scan(prefixEntry, d.entry)
}

func (d *dump) scan(prefix byte, fn visit) error {
	return scanTxn(d.txn, []byte{prefix}, []byte{prefix}, nil, fn)
}

func (d *dump) document(key, _ []byte) error {
	id := string(key[1:])
	parts, err := partsTxn(d.txn, id)
	if err != nil {
		return err
	}
	document, err := book.Decode(id, parts)
	if err != nil {
		return err
	}
	d.exists[id] = true
	return d.write(book.Piece{Document: document})
}

func (d *dump) count(key, value []byte) error {
	holder, endpoint, err := parseCountKey(key)
	if err != nil {
		return err
	}
	account, ofKey, _ := strings.Cut(holder, ledger.KeySeparator)
	used, err := parseCount(value)
	if err != nil || !d.exists[account] {
		return err
	}
	count := store.Count{Day: dayOf(key), Endpoint: endpoint, Used: used}
	return d.write(book.Piece{Count: &store.StoredCount{Account: account, Key: ofKey, Count: count}})
}

// rows writes the rows below a prefix, those of accounts or of a space.
func (d *dump) rows(prefix []byte) error {
	it := newIterator(d.txn, prefix)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		name, _, _ := bytes.Cut(it.Item().Key()[1:], []byte{0})
		of := book.Space{Account: string(name)}
		if prefix[0] == prefixSpace {
			of = book.Space{Name: string(name)}
		} else if !d.exists[of.Account] {
			continue
		}
		row, err := rowOf(it.Item(), len(rowKey(of, "")))
		if err == nil {
			err = d.write(book.Piece{Space: of, Row: &row})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *dump) entry(key, value []byte) error {
	id, err := parseEntryKey(key)
	if err != nil {
		return err
	}
	return d.write(book.Piece{Entry: &book.LogEntry{ID: id, Value: bytes.Clone(value)}})
}
