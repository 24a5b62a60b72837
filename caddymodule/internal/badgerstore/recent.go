package badgerstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/outage"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// An account has two lists, so that refused calls do not displace
	// admitted ones. A list has recentSlots rows of up to recentPerSlot calls,
	// which are filled in turn. A flush rewrites the newest row and begins as
	// many as it needs. The oldest row is overwritten when MaxRecent calls are
	// in the others.
	admittedCalls = 0
	refusedCalls  = 1
	recentLists   = 2
	recentPerSlot = 16
	recentSlots   = store.MaxRecent/recentPerSlot + 2

	// queueSize is how many recorded calls wait in the queue. Further calls
	// are dropped.
	queueSize = 1 << 9

	// maxPending is how many bytes wait for the next flush. Further calls
	// are dropped. With three quarters of it a flush begins at once.
	maxPending = 8 << 20

	// pendingSize is about what a pending takes besides its calls and keys, in
	// bytes, and keyUseSize what each of its keys takes.
	pendingSize = 280
	keyUseSize  = 200

	// flushEvery is how long a call waits at most.
	flushEvery = 5 * time.Second

	// flushRows is how many rows a flush writes in one transaction.
	flushRows = 256

	// usedFor is how long a key's last use is kept after it.
	usedFor = 400 * 24 * time.Hour
)

// recorder writes recent calls and last uses of keys in the background. A
// request copies its call to a queue and waits for nothing else. run moves
// the queue to the accounts and flushes them every few seconds.
type recorder struct {
	store            *Store
	writing, reading *outage.Log

	queueing sync.Mutex // guards queue
	queue    []queued
	wake     chan struct{} // tells run that the queue is filling

	mu      sync.Mutex          // held by a flush; guards what follows
	spare   []queued            // the memory of the queue before
	pending map[string]*pending // by account
	size    int                 // of all pending, in bytes
}

// queued is a call in the queue, with a copy of its path: the path is a part of
// the request line, which can have a megabyte.
type queued struct {
	store.Record

	path   [store.MaxPath]byte
	length int
}

// pending is what an account did since the last flush.
type pending struct {
	lists [recentLists]pendingCalls
	used  []keyUse
}

// pendingCalls are the calls of one list.
type pendingCalls struct {
	calls callList // up to MaxRecent
	older callList // the MaxRecent calls before, if there were so many
}

func newRecorder(s *Store) *recorder {
	log := outage.Logger(s.log)
	return &recorder{
		store:   s,
		writing: outage.New(log, slog.LevelError, "writing recent calls"),
		reading: outage.New(log, slog.LevelError, "reading the recent calls of an account"),
		queue:   make([]queued, 0, queueSize), spare: make([]queued, 0, queueSize),
		wake: make(chan struct{}, 1), pending: map[string]*pending{},
	}
}

// Record implements store.Usage.
func (s *Store) Record(r store.Record) { s.recent.add(&r) }

func (r *recorder) add(record *store.Record) {
	r.queueing.Lock()
	n := len(r.queue)
	if n < queueSize {
		r.queue = r.queue[:n+1]
		last := &r.queue[n]
		last.Record = *record
		last.Path = ""
		last.length = copy(last.path[:], store.CutPath(record.Path))
	}
	r.queueing.Unlock()
	if n == queueSize/4 {
		select {
		case r.wake <- struct{}{}:
		default: // run is awake already
		}
	}
}

// run flushes until the store closes.
func (r *recorder) run() {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		flush := r.flush
		select {
		case <-r.store.stop:
			return
		case <-r.wake:
			flush = r.flushFull
		case <-ticker.C:
		}
		if err := r.store.ledger.Use(flush); err != nil {
			r.writing.Failed(slog.Any("error", err))
		}
	}
}

// drain moves the queue to the accounts.
func (r *recorder) drain() {
	r.queueing.Lock()
	batch := r.queue
	r.queue = r.spare[:0]
	r.queueing.Unlock()
	for i := range batch {
		record := &batch[i].Record
		if r.size > maxPending || r.store.ledger.Deleted(record.Account, record.Handle) {
			continue
		}
		record.Path = string(batch[i].path[:batch[i].length])
		p := r.pending[record.Account]
		if p == nil {
			p = &pending{}
			r.pending[record.Account] = p
			r.size += pendingSize
		}
		before := p.size()
		p.add(record)
		r.size += p.size() - before
	}
	for i := range batch {
		batch[i].Record = store.Record{}
	}
	r.spare = batch
}

// drainFilling drains a filling queue. A long flush calls it, so that few
// calls are dropped meanwhile.
func (r *recorder) drainFilling() {
	select {
	case <-r.wake:
		r.drain()
	default:
	}
}

func (p *pending) size() (size int) {
	size = keyUseSize * len(p.used)
	for i := range p.lists {
		size += cap(p.lists[i].calls.buf) + cap(p.lists[i].older.buf)
	}
	return size
}

func (c *pendingCalls) add(record *store.Record) {
	if c.calls.n == store.MaxRecent {
		c.calls, c.older = callList{buf: c.older.buf[:0]}, c.calls
	}
	c.calls.add(record)
}

func (p *pending) add(record *store.Record) {
	p.lists[listOf(record)].add(record)
	if record.Key == "" {
		return
	}
	i := slices.IndexFunc(p.used, func(u keyUse) bool { return u.key == record.Key })
	if i < 0 {
		i = len(p.used)
		p.used = append(p.used, keyUse{key: record.Key, at: record.At, from: record.From})
	}
	p.used[i].add(record)
}

// flush writes what all accounts have pending.
func (r *recorder) flush() error { return r.flushFrom(0) }

// flushFull is flush when much is pending.
func (r *recorder) flushFull() error { return r.flushFrom(maxPending / 4 * 3) }

// flushFrom is flush when at least so many bytes are pending.
func (r *recorder) flushFrom(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drain(); r.size < size {
		return nil
	}
	return r.flushAccounts(slices.Sorted(maps.Keys(r.pending)))
}

func (r *recorder) flushAccount(account string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
	return r.flushAccounts([]string{account})
}

// flushAccounts writes what some accounts have pending, if they exist. What
// cannot be written is dropped. The accounts are sorted; r.mu is held.
func (r *recorder) flushAccounts(accounts []string) error {
	var changes []change
	err := r.store.archive.scanEach([]byte{prefixRecent}, func(scan scanFunc) error {
		for _, account := range accounts {
			r.drainFilling()
			p := r.remove(account)
			if p == nil || !r.store.ledger.Exists(account) {
				continue
			}
			rows, err := p.rows(account, scan)
			used, usedErr := r.usedRows(p.used)
			err = errors.Join(err, usedErr)
			if errors.Is(err, errCorrupt) {
				r.reading.Failed(slog.String("account", account), slog.Any("error", err))
				continue
			}
			if err != nil {
				return err
			}
			changes = append(append(changes, rows...), used...)
		}
		return nil
	})
	for rows := range slices.Chunk(changes, flushRows) {
		r.drainFilling()
		if err == nil {
			err = r.store.archive.write(rows...)
		}
	}
	if err == nil && len(changes) > 0 {
		r.writing.Worked()
	}
	return err
}

// remove takes an account out of pending. r.mu is held.
func (r *recorder) remove(account string) *pending {
	p := r.pending[account]
	if p != nil {
		delete(r.pending, account)
		r.size -= pendingSize + p.size()
	}
	return p
}

// forget drops what a deleted account has pending, and waits for a flush
// that may be writing its rows.
func (r *recorder) forget(account string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drain()
	r.remove(account)
}

// listOf returns the list that a call belongs to.
func listOf(record *store.Record) int {
	if record.Code != "" {
		return refusedCalls
	}
	return admittedCalls
}

// rows returns the slots to write after the pending calls are appended to
// those of the account.
func (p *pending) rows(account string, scan scanFunc) (rows []change, err error) {
	slots, err := readSlots(account, scan)
	if err != nil {
		return nil, err
	}
	for list := range p.lists {
		if p.lists[list].calls.n == 0 {
			continue
		}
		more, err := p.lists[list].rows(account, list, slots[list])
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// rows returns the slots of one list.
func (c *pendingCalls) rows(account string, list int, slots []slotRow) ([]change, error) {
	older, err := c.older.decode(account)
	if err != nil {
		return nil, err
	}
	calls, err := c.calls.decode(account)
	if err != nil {
		return nil, err
	}
	calls = append(older, calls...)
	calls = calls[max(0, len(calls)-store.MaxRecent):]
	number := uint64(0)
	if len(slots) > 0 {
		newest := slots[len(slots)-1]
		stored, err := newest.calls.decode(account)
		if err != nil {
			return nil, err
		}
		if number = newest.number; len(stored) < recentPerSlot {
			calls = append(stored, calls...)
		} else {
			number++
		}
	}
	return slotChanges(account, list, number, calls), nil
}

// slotChanges returns the rows of the calls of a list, from a slot on.
func slotChanges(account string, list int, number uint64, calls []store.Record) (rows []change) {
	if len(calls) == 0 {
		return nil
	}
	last := slices.MaxFunc(calls, byTime).At
	for part := range slices.Chunk(calls, recentPerSlot) {
		rows = append(rows, change{
			key:   recentKey(account, byte(list*recentSlots)+byte(number%recentSlots)),
			value: encodeSlot(number, part), expires: last.Add(store.RecentFor + 24*time.Hour),
		})
		number++
	}
	return rows
}

func byTime(a, b store.Record) int { return a.At.Compare(b.At) }

// readSlots returns the slots of the lists of an account, oldest first.
func readSlots(account string, scan scanFunc) (slots [recentLists][]slotRow, err error) {
	err = scan(recentPrefix(account), func(key, value []byte) error {
		slot, err := decodeSlot(value)
		list := min(int(key[len(key)-1])/recentSlots, recentLists-1)
		slots[list] = append(slots[list], slot)
		return err
	})
	for _, list := range slots {
		slices.SortFunc(list, bySlot)
	}
	return slots, err
}

// bySlot sorts the oldest slot first.
func bySlot(a, b slotRow) int { return cmp.Compare(a.number, b.number) }

// Recent implements store.Usage.
func (s *Store) Recent(_ context.Context, account string, now time.Time) (list []store.Record, err error) {
	err = s.ledger.Use(func() error {
		if err := s.recent.flushAccount(account); err != nil {
			return err
		}
		slots, err := readSlots(account, s.archive.scan)
		if err == nil {
			list, err = decodeSlots(account, slices.Concat(slots[:]...), now)
		}
		return err
	})
	return list, err
}
