package badgerstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Export implements store.Exporter. All items are of one instant. It fails with
// store.ErrClosed when the store is closed meanwhile.
func (s *Store) Export(ctx context.Context, write func(store.Item) error) error {
	unlock := sync.OnceFunc(s.lockEvery())
	defer unlock()
	return s.ledger.Use(func() error {
		txn, err := s.snapshot()
		if err != nil {
			return err
		}
		defer txn.Discard()
		unlock()
		e := &export{txn: txn, exists: map[string]bool{}}
		e.write = func(item store.Item) error {
			select {
			case <-s.stop:
				return store.ErrClosed
			case <-ctx.Done():
				return context.Cause(ctx)
			default:
				return write(item)
			}
		}
		return e.run()
	})
}

// snapshot writes what is only in memory and in the log to the archive, and
// returns a transaction that reads it. Accounts and keys must not change
// meanwhile. Otherwise an account that is deleted and created again could get
// the counts of the deleted one, because the deletion of the counts is in the
// log.
func (s *Store) snapshot() (*badger.Txn, error) {
	if err := errors.Join(s.archive.readable(), s.recent.flush()); err != nil {
		return nil, err
	}
	txn, err := s.journal.snapshot()
	if err != nil {
		return nil, fmt.Errorf("%w: writing: %w", store.ErrUnavailable, err)
	}
	return txn, nil
}

// export writes the items of a transaction.
type export struct {
	txn    *badger.Txn
	write  func(store.Item) error
	exists map[string]bool // of the accounts
	calls  []slotRow       // of one account
}

func (e *export) run() error {
	for _, part := range []struct {
		prefix byte
		write  visit
	}{
		{prefixAccount, e.account}, {prefixKey, e.key}, {prefixCount, e.count}, {prefixRefused, e.refused}, {prefixEntry, e.entry},
	} {
		if err := e.scan(part.prefix, part.write); err != nil {
			return err
		}
	}
	if err := e.recent(); err != nil {
		return err
	}
	return e.events()
}

func (e *export) scan(prefix byte, fn visit) error {
	return scanTxn(e.txn, []byte{prefix}, []byte{prefix}, nil, fn)
}

func (e *export) account(key, value []byte) error {
	a, err := decodeAccount(string(key[1:]), value)
	if err != nil {
		return err
	}
	e.exists[a.ID] = true
	return e.write(store.Item{Account: &a})
}

func (e *export) key(key, value []byte) error {
	k, err := decodeKey(key, value)
	if err != nil || !e.exists[k.Account] {
		return err
	}
	err = getTxn(e.txn, usedKey(k.ID), func(value []byte) error {
		use, err := decodeUse(k.ID, value)
		k.LastUsedAt, k.LastUsedFrom = use.at, use.from
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return e.write(store.Item{Key: &store.StoredKey{Key: k.Key, Hash: k.hash}})
}

func (e *export) count(key, value []byte) error {
	holder, endpoint, err := parseCountKey(key)
	if err != nil {
		return err
	}
	account, ofKey, _ := strings.Cut(holder, ledger.KeySeparator)
	used, err := parseCount(value)
	if err != nil || !e.exists[account] {
		return err
	}
	count := store.Count{Day: dayOf(key), Endpoint: endpoint, Used: used}
	return e.write(store.Item{Count: &store.StoredCount{Account: account, Key: ofKey, Count: count}})
}

func (e *export) refused(key, value []byte) error {
	r, err := decodeRefused(key, value)
	if err != nil {
		return err
	}
	return e.write(store.Item{Refused: &r})
}

func (e *export) entry(key, value []byte) error {
	entry, err := decodeEntry(key, value)
	if err != nil {
		return err
	}
	return e.write(store.Item{Entry: &entry})
}

// recent writes the recent calls, one account after the other.
func (e *export) recent() error {
	last := ""
	err := e.scan(prefixRecent, func(key, value []byte) error {
		account, _, _ := strings.Cut(string(key[1:]), "\x00")
		if account != last {
			if err := e.recentOf(last); err != nil {
				return err
			}
			last = account
		}
		slot, err := decodeSlot(value)
		e.calls = append(e.calls, slot)
		return err
	})
	if err != nil {
		return err
	}
	return e.recentOf(last)
}

// recentOf writes the calls of an account that were read.
func (e *export) recentOf(account string) error {
	slots := e.calls
	e.calls = nil
	if !e.exists[account] {
		return nil
	}
	calls, err := decodeSlots(account, slots, time.Now())
	for i := 0; i < len(calls) && err == nil; i++ {
		err = e.write(store.Item{Call: &calls[i]})
	}
	return err
}

// events writes the queued events, then the other known ids.
func (e *export) events() error {
	queued := map[string]bool{}
	err := e.scan(prefixQueued, func(key, value []byte) error {
		event, err := decodeEvent(key, value)
		if err != nil {
			return err
		}
		queued[event.ID] = true
		return e.write(store.Item{Event: &event})
	})
	if err != nil {
		return err
	}
	return e.scan(prefixKnown, func(key, value []byte) error {
		event, err := decodeKnown(key, value)
		if err != nil || queued[event.ID] {
			return err
		}
		return e.write(store.Item{Event: &event})
	})
}
