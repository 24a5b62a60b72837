package badgerstore

import (
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// restoreBytes is about how large the rows are that a restore writes at once:
// about as large as a transaction of Badger.
const restoreBytes = 1 << 20

// Restore writes the items of an export to a directory that is missing or
// empty, or to a store without data. The recent calls of an account follow each
// other. The error is store.ErrNotEmpty if there is data, and ErrInUse if
// another process has the directory open.
//
// Open refuses the directory until Restore has finished, also after an error.
// Then delete it and restore again.
func Restore(dir string, o Options, items iter.Seq2[store.Item, error]) error {
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	return errors.Join(s.restore(items), s.Close())
}

// restore writes the items between two changes of the row that makes Open
// refuse the directory.
func (s *Store) restore(items iter.Seq2[store.Item, error]) error {
	err := s.archive.scan(nil, func(key, _ []byte) error {
		if key[0] != prefixMeta && key[0] != prefixAttempt {
			return store.ErrNotEmpty
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.archive.writeDurably(nil, change{key: restoringKey, value: []byte{rowVersion}}); err != nil {
		return err
	}
	w := &restorer{archive: s.archive, now: time.Now()}
	for item, err := range items {
		if err == nil {
			err = w.add(item)
		}
		if err != nil {
			return err
		}
	}
	if err := errors.Join(w.endCalls(), w.flush()); err != nil {
		return err
	}
	return s.archive.writeDurably(nil, change{key: restoringKey})
}

// restorer collects rows and writes many at once.
type restorer struct {
	archive *archive
	now     time.Time
	rows    []change
	size    int
	// calls are the newest of one account, a few more than are kept.
	calls []store.Record
}

// add adds the rows of an item.
func (w *restorer) add(item store.Item) error {
	switch {
	case item.Account != nil:
		return w.put(change{key: accountKey(item.Account.ID), value: encodeAccount(*item.Account)})
	case item.Key != nil:
		return w.addKey(item.Key)
	case item.Count != nil:
		c := item.Count
		return w.put(countRow(appendCountKey(nil, c.Day, ledger.Holder(c.Account, c.Key), c.Endpoint), uint64(max(0, c.Used))))
	case item.Call != nil:
		return w.addCall(*item.Call)
	case item.Refused != nil:
		return w.put(refusedChange(*item.Refused))
	case item.Entry != nil:
		return w.put(entryChange(item.Entry))
	case item.Event != nil:
		return w.addEvent(item.Event)
	}
	return errors.New("an item of the export is empty")
}

func (w *restorer) addKey(k *store.StoredKey) error {
	rows := []change{keyRow{Key: k.Key, hash: k.Hash}.change()}
	if !k.LastUsedAt.IsZero() {
		rows = append(rows, useChange(keyUse{key: k.ID, at: k.LastUsedAt, from: k.LastUsedFrom}))
	}
	return w.put(rows...)
}

// addCall keeps a call until all of its account are known. A file can have
// more calls than are kept.
func (w *restorer) addCall(call store.Record) error {
	if len(w.calls) > 0 && w.calls[0].Account != call.Account {
		if err := w.endCalls(); err != nil {
			return err
		}
	}
	// Without the clone, a part of a long path uses the memory of all of it.
	call.Path = strings.Clone(store.CutPath(call.Path))
	w.calls = append(w.calls, call)
	if len(w.calls) > 2*store.MaxRecent {
		w.calls = store.LastCalls(w.calls)
	}
	return nil
}

// endCalls adds the rows of the calls of one account.
func (w *restorer) endCalls() error {
	var lists [recentLists][]store.Record
	for _, call := range slices.Backward(store.LastCalls(w.calls)) {
		list := listOf(&call)
		lists[list] = append(lists[list], call)
	}
	w.calls = w.calls[:0]
	for list, calls := range lists {
		if len(calls) == 0 {
			continue
		}
		if err := w.put(slotChanges(calls[0].Account, list, 0, calls)...); err != nil {
			return err
		}
	}
	return nil
}

// addEvent adds the rows of an event. A queued event is known at least until
// it is delivered.
func (w *restorer) addEvent(e *store.Event) error {
	rows := []change{knownChange(e)}
	if e.Queued {
		rows = append(rows, eventChange(e))
	}
	return w.put(rows...)
}

// put adds rows, and writes those before if they are many. A row that has
// expired is not written.
func (w *restorer) put(rows ...change) error {
	for _, row := range rows {
		if row.value == nil || !row.expires.IsZero() && row.expires.Before(w.now) {
			continue
		}
		w.rows = append(w.rows, row)
		w.size += len(row.key) + len(row.value)
	}
	if w.size < restoreBytes {
		return nil
	}
	return w.flush()
}

// flush writes the rows and syncs them.
func (w *restorer) flush() error {
	_, err := w.archive.writeRows(true, w.rows)
	clear(w.rows)
	w.rows, w.size = w.rows[:0], 0
	return err
}
