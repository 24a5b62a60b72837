package badgerstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Export implements store.Exporter. Everything is from one instant.
func (s *Store) Export(ctx context.Context, write func(store.Item) error) error {
	var txn *badger.Txn
	err := s.ledger.Use(func() (err error) {
		if err := errors.Join(s.archive.readable(), s.recent.flush()); err != nil {
			return err
		}
		txn, err = s.journal.archiveAll()
		return err
	})
	if err != nil {
		return err
	}
	defer txn.Discard()
	e := &exporter{ctx: ctx, txn: txn, write: write}
	// Accounts first: the others belong to them.
	for _, part := range []struct {
		prefix byte
		export func(key, value []byte) error
	}{
		{prefixAccount, e.account}, {prefixKey, e.key}, {prefixCount, e.count}, {prefixRecent, e.calls},
		{prefixRefused, e.refused}, {prefixEntry, e.entry}, {prefixEvent, e.event}, {prefixKnown, e.known},
	} {
		if err := e.each(part.prefix, part.export); err != nil {
			return err
		}
	}
	return e.writeRecent()
}

// archiveAll writes all counts to the archive, and returns a transaction
// that reads them. Admissions go on; later counts are not in it.
func (j *journal) archiveAll() (*badger.Txn, error) {
	j.appending.Lock()
	err := j.log.Failed()
	if err == nil && !j.log.Empty() {
		err = j.log.Rotate()
	}
	j.appending.Unlock()
	if err != nil {
		return nil, err
	}
	j.archiving.Lock()
	defer j.archiving.Unlock()
	if err := j.archiveSegments(); err != nil {
		return nil, err
	}
	return j.archive.db.NewTransaction(false), nil
}

// exporter makes items of the rows of one instant.
type exporter struct {
	ctx   context.Context
	txn   *badger.Txn
	write func(store.Item) error

	caller string // the account of recent
	recent []store.Record
}

// each calls export with all rows below a prefix.
func (e *exporter) each(prefix byte, export func(key, value []byte) error) error {
	o := badger.DefaultIteratorOptions
	o.Prefix, o.PrefetchValues = []byte{prefix}, false
	it := e.txn.NewIterator(o)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		item := it.Item()
		if err := item.Value(func(value []byte) error { return export(item.Key(), value) }); err != nil {
			return err
		}
	}
	return nil
}

// exists tells whether there is an account. Rows can outlive it for a moment.
func (e *exporter) exists(account string) (bool, error) {
	_, err := e.txn.Get(accountKey(account))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (e *exporter) account(key, value []byte) error {
	account, err := decodeAccount(string(key[1:]), value)
	if err != nil {
		return err
	}
	return e.write(store.Item{Account: &account})
}

func (e *exporter) key(key, value []byte) error {
	k, err := decodeKey(key, value)
	if err != nil {
		return err
	}
	if found, err := e.exists(k.Account); !found {
		return err
	}
	item, err := e.txn.Get(usedKey(k.ID))
	if err == nil {
		err = item.Value(func(value []byte) error {
			use, err := decodeUse(k.ID, value)
			k.LastUsedAt, k.LastUsedFrom = use.at, use.from
			return err
		})
	}
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return err
	}
	return e.write(store.Item{Key: &store.StoredKey{Key: k.Key, Hash: k.hash}})
}

func (e *exporter) count(key, value []byte) error {
	holder, endpoint, err := parseCountKey(key)
	if err != nil {
		return err
	}
	count := store.StoredCount{Count: store.Count{Day: dayOf(key), Endpoint: endpoint}}
	count.Account, count.Key, _ = strings.Cut(holder, "\x01")
	if count.Used, err = parseCount(value); err != nil {
		return err
	}
	if found, err := e.exists(count.Account); !found {
		return err
	}
	return e.write(store.Item{Count: &count})
}

// calls collects the recent calls of an account, whose rows follow each other.
func (e *exporter) calls(key, value []byte) error {
	name, _, _ := bytes.Cut(key[1:], []byte{0})
	if account := string(name); account != e.caller {
		if err := e.writeRecent(); err != nil {
			return err
		}
		e.caller = account
	}
	slot, err := decodeSlot(value)
	if err != nil {
		return err
	}
	records, err := slot.calls.decode(e.caller)
	e.recent = append(e.recent, records...)
	return err
}

// writeRecent writes the recent calls of an account, oldest first.
func (e *exporter) writeRecent() error {
	recent := e.recent
	e.recent = nil
	if found, err := e.exists(e.caller); !found {
		return err
	}
	slices.SortStableFunc(recent, byTime)
	recent = recent[max(0, len(recent)-store.MaxRecent):]
	for i := range recent {
		if err := e.write(store.Item{Call: &recent[i]}); err != nil {
			return err
		}
	}
	return nil
}

func (e *exporter) refused(key, value []byte) error {
	row, err := decodeRefused(key, value)
	if err != nil {
		return err
	}
	return e.write(store.Item{Refused: &row})
}

func (e *exporter) entry(key, value []byte) error {
	entry, err := decodeEntry(key, value)
	if err != nil {
		return err
	}
	return e.write(store.Item{Entry: &entry})
}

func (e *exporter) event(key, value []byte) error {
	event, err := decodeEvent(key, value)
	if err != nil {
		return err
	}
	event.Due = event.At
	return e.write(store.Item{Event: event})
}

// known exports the ids of events that are not queued.
func (e *exporter) known(key, value []byte) error {
	id := string(key[1:])
	if _, err := e.txn.Get(eventKey(id)); !errors.Is(err, badger.ErrKeyNotFound) {
		return err
	}
	d := newDecoder(value)
	event := store.Event{ID: id, Known: d.time()}
	if err := d.end(); err != nil {
		return err
	}
	return e.write(store.Item{Event: &event})
}
