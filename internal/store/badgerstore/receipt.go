package badgerstore

import (
	"context"
	"fmt"
	"hash/maphash"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// A receipt is in the record of the log that has the counts of its call, and then in
// the archive. So a loss of power can take the counts alone, as it can without a
// receipt, and never the receipt alone: no call counts twice. No backup has it.

// receiptKey is the key of a receipt. Without a name it is the prefix of those of the
// account.
func receiptKey(account, name string) []byte {
	return rowKey(book.Space{Name: "receipts"}, account+"\x00"+name)
}

func receiptRows(receipts []ledger.Receipt) []change {
	rows := make([]change, len(receipts))
	for i, r := range receipts {
		rows[i] = change{key: receiptKey(r.Account, r.Name), value: r.New, expires: r.Expires}
	}
	return rows
}

// Receipt implements store.Counter.
func (s *Store) Receipt(_ context.Context, call store.Call, name string) (value []byte, err error) {
	err = s.ledger.Use(func() error {
		value, err = s.archive.get(receiptKey(call.Account, name))
		return err
	})
	return value, err
}

// keep calls do, which counts or settles a call with a receipt and tells whether it
// has, unless something else is kept. Then the archive has the receipt.
func (s *Store) keep(call *store.Call, do func() (done bool, err error)) error {
	r := call.Receipt
	key := receiptKey(call.Account, r.Name)
	one := &s.receipts[maphash.Bytes(s.seed, key)%stripes]
	one.Lock()
	defer one.Unlock()
	return s.ledger.Use(func() error {
		kept, err := s.archive.get(key)
		if err != nil {
			return err
		}
		if !same(kept, r.Old) {
			return store.ErrReceipt
		}
		if err := s.archive.checkDisk(); err != nil {
			return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
		}
		s.journal.keeping.RLock()
		defer s.journal.keeping.RUnlock()
		if done, err := do(); !done || err != nil {
			return err
		}
		if err := s.archiveReceipt(call); err != nil { // the call is counted
			return fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
		return nil
	})
}

// receipts are those that the archive gets with one write.
type receipts struct {
	calls []*store.Call
	done  chan struct{} // closed when they are written
	err   error
}

// archiveReceipt writes the receipt of a call to the archive, with those of the calls
// that come until it is the turn of the first.
func (s *Store) archiveReceipt(call *store.Call) error {
	s.archiving.Lock()
	group := s.open
	leads := group == nil
	if leads {
		group = &receipts{done: make(chan struct{})}
		s.open = group
	}
	group.calls = append(group.calls, call)
	s.archiving.Unlock()
	if !leads {
		<-group.done
		return group.err
	}
	end := func() {
		s.archiving.Lock()
		defer s.archiving.Unlock()
		if s.open == group {
			s.open = nil
		}
	}
	var gone []change
	group.err = s.archive.commit(appended, func() (rows []change, err error) {
		end()
		for _, c := range group.calls {
			row := receiptRows([]ledger.Receipt{{Account: c.Account, Receipt: c.Receipt}})[0]
			switch isGone, err := s.gone(c); {
			case err != nil:
				return nil, err
			case isGone:
				gone = append(gone, change{key: row.key})
			default:
				rows = append(rows, row)
			}
		}
		return rows, nil
	})
	if group.err != nil {
		end()                                            // it may not have begun
		s.archive.broken.CompareAndSwap(nil, &group.err) // the log has the rows
	} else if len(gone) > 0 {
		group.err = s.archive.write(logged, gone...) // after what the log has
	}
	close(group.done)
	return group.err
}

// gone tells whether the account of a call was deleted. archive.mu is held.
func (s *Store) gone(call *store.Call) (bool, error) {
	if s.ledger.Exists(call.Account) {
		return s.ledger.Deleted(call.Account, call.Handle), nil
	}
	document, err := s.archive.get(partKey(prefixAccount, call.Account)) // a deletion can still fail
	return document == nil, err
}
