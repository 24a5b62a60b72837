package badgerstore

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// An account's recent calls stand in recentSlots rows of up to
	// recentPerSlot calls, filled in turn: one row is written per flush,
	// the rest is bounded without ever being deleted, and there are
	// always MaxRecent behind the newest.
	recentPerSlot = 16
	recentSlots   = store.MaxRecent/recentPerSlot + 2

	// maxPath is how much of a path is kept.
	maxPath = 512

	// maxWaiting is how many calls wait for the next flush; beyond it the
	// oldest are dropped.
	maxWaiting = 1 << 14

	// flushEvery is how long a call waits at the most.
	flushEvery = time.Second

	// maxRings is how many accounts' newest slots are kept in memory; the
	// others are read back when they are written to.
	maxRings = 1 << 12

	// usedEvery is how often a key's last use is written.
	usedEvery = 30 * time.Second

	// usedFor is how long a key's last use is kept after it.
	usedFor = 400 * 24 * time.Hour

	// flushRows is how many rows are committed together.
	flushRows = 256
)

// recorder writes recent calls and last uses behind the answers.
type recorder struct {
	store *Store

	mu      sync.Mutex
	waiting []store.Record // a ring once it is full
	oldest  int            // where the ring begins
	full    chan struct{}  // wakes run when waiting is half full

	flushing sync.Mutex         // serialises flushes; guards what follows
	batch    []store.Record     // the memory of the last flush
	rings    map[string]slotRow // each account's newest slot
	used     map[string]time.Time
}

func newRecorder(s *Store) *recorder {
	return &recorder{store: s, full: make(chan struct{}, 1), rings: map[string]slotRow{}, used: map[string]time.Time{}}
}

// Record implements store.Usage.
func (s *Store) Record(r store.Record) { s.recent.add(r) }

func (r *recorder) add(record store.Record) {
	if len(record.Path) > maxPath {
		record.Path = strings.ToValidUTF8(record.Path[:maxPath], "")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == maxWaiting {
		r.waiting[r.oldest] = record
		r.oldest = (r.oldest + 1) % maxWaiting
		return
	}
	r.waiting = append(r.waiting, record)
	if len(r.waiting) == maxWaiting/2 {
		select {
		case r.full <- struct{}{}:
		default: // it is awake already
		}
	}
}

// run flushes until the store closes.
func (r *recorder) run() {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.store.stop:
			return
		case <-ticker.C:
		case <-r.full:
		}
		if err := r.store.ledger.Use(r.flush); err != nil {
			r.store.log.Error("writing recent calls", zap.Error(err))
		}
	}
}

// flush writes what waits, for the accounts that exist. Calls that cannot
// be written are dropped: they describe what happened, they do not count
// it.
func (r *recorder) flush() error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	r.mu.Lock()
	batch := r.batch[:0]
	batch = append(append(batch, r.waiting[r.oldest:]...), r.waiting[:r.oldest]...)
	clear(r.waiting)
	r.waiting, r.oldest = r.waiting[:0], 0
	r.mu.Unlock()
	r.batch = batch
	defer clear(batch)
	if len(batch) == 0 {
		return nil
	}
	slices.SortStableFunc(batch, func(a, b store.Record) int { return strings.Compare(a.Account, b.Account) })
	batch = slices.DeleteFunc(batch, func(b store.Record) bool { return !r.store.ledger.Exists(b.Account) })
	changes := r.usedChanges(batch)
	for len(batch) > 0 {
		n := 1
		for n < len(batch) && batch[n].Account == batch[0].Account {
			n++
		}
		rows, err := r.fill(batch[0].Account, batch[max(0, n-store.MaxRecent):n])
		if err != nil {
			return err
		}
		changes = append(changes, rows...)
		batch = batch[n:]
		if len(changes) >= flushRows {
			if err := r.store.ledger.Write(false, changes...); err != nil {
				return err
			}
			changes = changes[:0]
		}
	}
	return r.store.ledger.Write(false, changes...)
}

// fill appends an account's calls to its newest slot and begins further
// ones, and returns the rows to write.
func (r *recorder) fill(account string, calls []store.Record) ([]ledger.Change, error) {
	slot, err := r.newest(account)
	if err != nil {
		return nil, err
	}
	var changes []ledger.Change
	for len(calls) > 0 {
		if len(slot.calls) >= recentPerSlot {
			slot = slotRow{number: slot.number + 1}
		}
		n := min(recentPerSlot-len(slot.calls), len(calls))
		slot.calls = append(slices.Clip(slot.calls), calls[:n]...)
		calls = calls[n:]
		changes = append(changes, ledger.Change{
			Key: recentKey(account, byte(slot.number%recentSlots)), Value: encodeSlot(slot),
			ExpiresAt: slot.calls[len(slot.calls)-1].At.Add(store.RecentFor + 24*time.Hour),
		})
	}
	if len(r.rings) >= maxRings {
		clear(r.rings)
	}
	r.rings[account] = slot
	return changes, nil
}

func (r *recorder) newest(account string) (slotRow, error) {
	if slot, ok := r.rings[account]; ok {
		return slot, nil
	}
	slots, err := r.store.slots(account)
	if err != nil || len(slots) == 0 {
		return slotRow{}, err
	}
	return slots[len(slots)-1], nil
}

// remove deletes an account by calling fn, and drops what waits for it:
// nothing may be written for it any more, not even by the next account of
// that id.
func (r *recorder) remove(account string, fn func() error) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	if err := fn(); err != nil {
		return err
	}
	delete(r.rings, account)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.waiting {
		if r.waiting[i].Account == account {
			r.waiting[i] = store.Record{}
		}
	}
	return nil
}

// usedChanges returns the rows of the keys whose last use is due to be
// written.
func (r *recorder) usedChanges(batch []store.Record) []ledger.Change {
	latest := map[string]time.Time{}
	for i := range batch {
		if b := &batch[i]; b.Key != "" && b.At.After(latest[b.Key]) {
			latest[b.Key] = b.At
		}
	}
	var changes []ledger.Change
	for key, at := range latest {
		if at.Sub(r.used[key]) < usedEvery {
			continue
		}
		r.used[key] = at
		e := newEncoder()
		e.time(at)
		changes = append(changes, ledger.Change{Key: usedKey(key), Value: e.buf, ExpiresAt: at.Add(usedFor)})
	}
	if len(r.used) > maxWaiting {
		clear(r.used)
	}
	return changes
}

// slots returns an account's slots, oldest first.
func (s *Store) slots(account string) ([]slotRow, error) {
	var slots []slotRow
	err := s.scan(recentPrefix(account), func(_, value []byte) error {
		slot, err := decodeSlot(account, value)
		slots = append(slots, slot)
		return err
	})
	slices.SortFunc(slots, func(a, b slotRow) int { return cmp.Compare(a.number, b.number) })
	return slots, err
}

// Recent implements store.Usage.
func (s *Store) Recent(_ context.Context, account string, now time.Time) (list []store.Record, err error) {
	err = s.ledger.Use(func() error {
		if err := s.recent.flush(); err != nil {
			return err
		}
		slots, err := s.slots(account)
		for _, slot := range slots {
			list = append(list, slot.calls...)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r store.Record) bool { return now.Sub(r.At) > store.RecentFor })
	slices.SortStableFunc(list, func(a, b store.Record) int { return a.At.Compare(b.At) })
	slices.Reverse(list)
	return list[:min(len(list), store.MaxRecent)], nil
}
