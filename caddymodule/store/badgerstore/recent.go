package badgerstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// An account's recent calls stand in recentSlots rows of up to
	// recentPerSlot calls, filled in turn: a flush writes the newest and
	// those that it begins, the rest is bounded without ever being deleted,
	// and there are always MaxRecent behind the newest.
	recentPerSlot = 16
	recentSlots   = store.MaxRecent/recentPerSlot + 2

	// maxPath is how much of a path is kept.
	maxPath = 512

	// ringSize is how many calls can be recorded before somebody has to
	// file them; what comes while the ring is full is dropped.
	ringSize = 1 << 9

	// maxWaiting is how many bytes of calls wait for the next flush; what
	// does not fit is dropped.
	maxWaiting = 4 << 20

	// flushEvery is how long a call waits at the most, and flushFullEvery
	// how long those of an account whose lists are full: what was written
	// of it would be outdated before it is read.
	flushEvery     = 5 * time.Second
	flushFullEvery = 6 * flushEvery

	// maxSlots is how many accounts' newest slots are kept in memory; the
	// others are read back when they are written to.
	maxSlots = 1 << 12

	// usedEvery is how often a key's last use is written.
	usedEvery = 30 * time.Second

	// maxUsed is of how many keys is known when that was.
	maxUsed = 1 << 14

	// usedFor is how long a key's last use is kept after it.
	usedFor = 400 * 24 * time.Hour

	// flushRows is how many rows are committed together.
	flushRows = 256
)

// recorder writes recent calls and last uses behind the answers. A call
// is copied to a ring, which is all that its request waits for; run files
// what is in the ring under the accounts, and writes it from time to time.
type recorder struct {
	store               *Store
	writing, continuing *outage.Log

	mu   sync.Mutex
	ring []store.Record // up to ringSize
	wake chan struct{}  // for run, when there is much to file

	filing  sync.Mutex          // guards what follows
	spare   []store.Record      // the memory of a ring
	waiting map[string]*waiting // by account
	size    int                 // of all that waits, in bytes

	flushing sync.Mutex         // serialises flushes; guards what follows
	slots    map[string]slotRow // each account's newest slot
	used     map[string]time.Time
}

func newRecorder(s *Store) *recorder {
	log := structured(s.log)
	return &recorder{
		writing:    outage.New(log, slog.LevelError, "writing recent calls"),
		continuing: outage.New(log, slog.LevelError, "continuing the recent calls of an account"),
		store:      s, wake: make(chan struct{}, 1),
		ring: make([]store.Record, 0, ringSize), spare: make([]store.Record, 0, ringSize),
		waiting: map[string]*waiting{}, slots: map[string]slotRow{}, used: map[string]time.Time{},
	}
}

// Record implements store.Usage.
func (s *Store) Record(r store.Record) { s.recent.add(&r) }

func (r *recorder) add(record *store.Record) {
	r.mu.Lock()
	n := len(r.ring)
	if n < ringSize {
		r.ring = append(r.ring, *record)
	}
	r.mu.Unlock()
	if n == ringSize/4 {
		r.awake()
	}
}

func (r *recorder) awake() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake already
	}
}

// file files what is in the ring, and tells whether much waits.
func (r *recorder) file() (much bool) {
	r.filing.Lock()
	defer r.filing.Unlock()
	r.mu.Lock()
	batch := r.ring
	r.ring = r.spare[:0]
	r.mu.Unlock()
	for i := range batch {
		r.fileOne(&batch[i])
	}
	clear(batch)
	r.spare = batch
	return r.size > maxWaiting/2
}

func (r *recorder) fileOne(record *store.Record) {
	if r.size > maxWaiting || r.store.ledger.Deleted(record.Account, record.Handle) {
		return
	}
	if len(record.Path) > maxPath {
		record.Path = strings.ToValidUTF8(record.Path[:maxPath], "")
	}
	w := r.waiting[record.Account]
	if w == nil {
		w = &waiting{}
		r.waiting[record.Account] = w
	}
	r.size += w.add(record)
}

// run files and flushes until the store closes.
func (r *recorder) run() {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.store.stop:
			return
		case <-r.wake:
			if !r.file() {
				continue
			}
		case <-ticker.C:
		}
		if err := r.store.ledger.Use(r.flushDue); err != nil {
			r.writing.Failed(slog.Any("error", err))
		}
	}
}

// flush writes what waits.
func (r *recorder) flush() error {
	return r.flushSome(func(*waiting) bool { return true })
}

// flushDue writes what has waited long enough, and all if it is much.
func (r *recorder) flushDue() error {
	if r.file() {
		return r.flush()
	}
	return r.flushSome((*waiting).due)
}

// flushSome writes what waits of some accounts, if they exist. Calls that
// cannot be written are dropped: they describe what happened, they do not
// count it.
func (r *recorder) flushSome(which func(*waiting) bool) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	batch := r.take(which)
	var changes []change
	for account, w := range batch {
		if !r.store.ledger.Exists(account) {
			continue
		}
		rows, err := r.fill(account, w)
		switch {
		case err != nil && !errors.Is(err, errCorrupt):
			r.forget() // what was filled before is not written
			return err
		case err != nil:
			// It is for the account's own reader to fail of it.
			r.continuing.Failed(slog.String("account", account), slog.Any("error", err))
		}
		changes = append(append(changes, rows...), r.usedChanges(w.keys)...)
		if len(changes) >= flushRows {
			if err := r.write(changes); err != nil {
				return err
			}
			changes = changes[:0]
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return r.write(changes)
}

// write writes rows. After an error nobody knows which of them are there:
// what is remembered of them is forgotten.
func (r *recorder) write(changes []change) error {
	err := r.store.archive.write(changes...)
	if err != nil {
		r.forget()
		return err
	}
	r.writing.Worked()
	return nil
}

// forget forgets what is remembered of rows.
func (r *recorder) forget() {
	clear(r.slots)
	clear(r.used)
}

// take takes what waits of some accounts, with what is in the ring.
func (r *recorder) take(which func(*waiting) bool) map[string]*waiting {
	r.file()
	r.filing.Lock()
	defer r.filing.Unlock()
	batch := make(map[string]*waiting, len(r.waiting))
	for account, w := range r.waiting {
		if which(w) {
			batch[account] = w
			delete(r.waiting, account)
			r.size -= w.size()
		}
	}
	return batch
}

// fill appends an account's calls to its newest slot and begins further
// ones, and returns the rows to write.
func (r *recorder) fill(account string, w *waiting) ([]change, error) {
	slot, err := r.newest(account)
	if err != nil {
		return nil, err
	}
	calls, expires := w.recent(), w.last.Add(store.RecentFor+24*time.Hour)
	var changes []change
	for calls.n > 0 {
		if slot.calls.n >= recentPerSlot {
			slot = slotRow{number: slot.number + 1}
		}
		slot.calls.join(calls.cut(recentPerSlot - slot.calls.n))
		changes = append(changes, change{
			key: recentKey(account, byte(slot.number%recentSlots)), value: encodeSlot(slot), expires: expires,
		})
	}
	if len(r.slots) >= maxSlots {
		clear(r.slots)
	}
	r.slots[account] = slot
	return changes, nil
}

func (r *recorder) newest(account string) (slotRow, error) {
	if slot, ok := r.slots[account]; ok {
		return slot, nil
	}
	slots, err := r.store.slots(account)
	if err != nil || len(slots) == 0 {
		return slotRow{}, err
	}
	return slots[len(slots)-1], nil
}

// remove deletes an account by calling fn, and drops what waits for it.
func (r *recorder) remove(account string, fn func() error) error {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	if err := fn(); err != nil {
		return err
	}
	delete(r.slots, account)
	r.file()
	r.filing.Lock()
	defer r.filing.Unlock()
	if w := r.waiting[account]; w != nil {
		r.size -= w.size()
		delete(r.waiting, account)
	}
	return nil
}

// usedChanges returns the rows of the keys whose last use is due to be
// written.
func (r *recorder) usedChanges(keys []use) (changes []change) {
	for _, u := range keys {
		if u.at.Sub(r.used[u.key]) < usedEvery {
			continue
		}
		if len(r.used) >= maxUsed {
			clear(r.used)
		}
		r.used[u.key] = u.at
		e := newEncoder()
		e.time(u.at)
		changes = append(changes, change{key: usedKey(u.key), value: e.buf, expires: u.at.Add(usedFor)})
	}
	return changes
}

// slots returns an account's slots, oldest first.
func (s *Store) slots(account string) ([]slotRow, error) {
	var slots []slotRow
	err := s.archive.scan(recentPrefix(account), func(_, value []byte) error {
		slot, err := decodeSlot(bytes.Clone(value))
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
			calls, err := slot.calls.decode(account)
			if err != nil {
				return err
			}
			list = append(list, calls...)
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
