package ledger

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// MaxGroup is the largest number of counters in a group.
const MaxGroup = 4096

// A leader lets other goroutines run before it closes its batch. If that takes
// longer than yieldWithin, and yieldEach for each call of the batch, something
// else keeps the processors busy, such as the hash of a password. Go lets it run
// for at least 10 ms at a time. Then no leader does it for a yieldPause.
const (
	yieldWithin = 5 * time.Millisecond
	yieldEach   = 50 * time.Microsecond
	yieldPause  = time.Second
)

// Group is what is written as one record.
type Group struct {
	// Counts holds the new value of each counter that changes.
	Counts []Count
	// Receipts are kept with it.
	Receipts []Receipt
	// Changes is how many changes the group decides, refused ones included.
	Changes int
	// Sync asks that the group has reached the disk, not only the
	// operating system, before Append returns.
	Sync bool
}

// kind is what a change does.
type kind uint8

const (
	take kind = iota
	look
	settle
)

// change is a change of a counter, from its caller to the leader of a
// commit and back.
type change struct {
	kind     kind
	call     store.Call
	account  reference
	key      uint32 // the holder of the key's counters, if the call has a Key
	endpoint uint32
	day      *day

	limits   []store.Limit
	rooms    []store.Room
	admitted bool // of a call to be taken

	// Of a call that also counts elsewhere: see store.Places.
	places         store.Places
	calls, overage uint32 // holders
	hasTotal       bool
	total          *day // of store.TotalDay

	cost    int64 // that a call is settled with
	refund  bool
	missing *store.Limit // whose sums are missing
	err     error
}

// release frees a change for other calls.
func (c *change) release() {
	*c = change{}
	changes.Put(c)
}

// holder returns the holder of the counters that a limit covers.
func (c *change) holder(limit *store.Limit) uint32 {
	switch {
	case limit.Calls:
		return c.calls
	case limit.OfKey:
		return c.key
	}
	return c.account.number
}

// KeySeparator is between an account and a key in the name of a holder.
const KeySeparator = "\x01"

// Holder returns the holder of counters: an account, or one of its keys. A key can
// also be a name such as store.Credited.
func Holder(account, key string) string {
	if key == "" {
		return account
	}
	return account + KeySeparator + key
}

// changes is memory for changes, so that a call allocates none.
var changes = sync.Pool{New: func() any { return new(change) }}

func (l *Ledger) newChange(kind kind, call *store.Call, limits []store.Limit, rooms []store.Room) *change {
	c := changes.Get().(*change)
	c.kind, c.call, c.account, c.limits, c.rooms = kind, *call, l.accounts.reference(call), limits, rooms
	if call.Key != "" {
		c.key = l.accounts.number(Holder(call.Account, call.Key))
	}
	calls, soft := false, false
	for i := range limits {
		limit := &limits[i]
		calls, soft, c.hasTotal = calls || limit.Calls, soft || limit.Soft, c.hasTotal || limit.Period == store.Total
	}
	if calls {
		c.calls = l.accounts.number(Holder(call.Account, store.CallsKey))
	}
	if soft {
		c.overage = l.accounts.number(Holder(call.Account, store.OverageKey))
	}
	if calls || soft || c.hasTotal {
		c.places = store.PlacesOf(call, limits)
	}
	return c
}

// commits is the group commit. A caller that finds no open batch opens one
// and leads it: it waits for its turn, closes the batch, and commits for all
// callers that joined meanwhile. There is no timer and no goroutine: without
// load a call waits for no other, and under load a batch has the calls that
// arrived during the commit before it, and those that were ready to run.
type commits struct {
	mu   sync.Mutex
	open []*change     // the batch that takes changes until its leader has its turn
	done chan struct{} // closed when the open batch is committed; nil without followers
	slow time.Time     // the last time that it took too long to let others run

	turn  chan struct{} // holds one element while a batch is committed
	spare []*change     // memory of the leader for the next batch
	group Group         // of the leader; its memory is used again
}

// wait returns when no batch is being committed, and keeps it so until
// pass is called.
func (c *commits) wait() { c.turn <- struct{}{} }

func (c *commits) pass() { <-c.turn }

// apply makes changes without a log. The lock of the counts is held.
func (l *Ledger) apply(changes []*change) {
	l.decide(changes)
	l.finish(changes, nil)
}

// commit makes a change durable and applies it, or sets its error.
func (l *Ledger) commit(change *change) {
	c := &l.commits
	c.mu.Lock()
	leads, slow := len(c.open) == 0, c.slow
	c.open = append(c.open, change)
	if leads {
		c.mu.Unlock()
		l.lead(slow)
		return
	}
	if c.done == nil {
		c.done = make(chan struct{})
	}
	done := c.done
	c.mu.Unlock()
	<-done
}

// lead commits the open batch when its turn comes. slow is that of commits.
func (l *Ledger) lead(slow time.Time) {
	c := &l.commits
	var waited time.Duration
	if began := time.Now(); began.Sub(slow) > yieldPause {
		// Goroutines that are ready to run do so now, and the calls among them
		// join: under load most calls then need no write of their own.
		runtime.Gosched()
		waited = time.Since(began)
	}
	c.wait()
	c.mu.Lock()
	batch, done := c.open, c.done
	c.open, c.done = c.spare, nil
	if waited > yieldWithin+time.Duration(len(batch))*yieldEach {
		c.slow = time.Now()
	}
	c.mu.Unlock()
	defer func() {
		clear(batch)
		c.spare = batch[:0]
		c.pass()
		if done != nil {
			close(done)
		}
	}()
	for left := batch; len(left) > 0; {
		part := left[:fitting(left)]
		left = left[len(part):]
		l.counts.mu.Lock()
		l.decide(part)
		l.commits.group.Changes = len(part)
		l.counts.mu.Unlock()
		err := l.append()
		l.counts.mu.Lock()
		l.finish(part, err)
		l.counts.mu.Unlock()
	}
}

// fitting returns how many changes of a batch, from the first one, have no more
// counters than a group.
func fitting(batch []*change) (n int) {
	for counters := 0; n < len(batch); n++ {
		counters += max(2, batch[n].places.N) // of an account and a key
		if batch[n].call.Receipt != nil {
			counters += MaxGroup / 64 // its size
		}
		if n > 0 && counters > MaxGroup {
			break
		}
	}
	return n
}

// append writes the group. A log that panics has failed: no caller may be
// left waiting.
func (l *Ledger) append() (err error) {
	g := &l.commits.group
	if len(g.Counts) == 0 && len(g.Receipts) == 0 {
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the log panicked: %v", store.ErrUnavailable, r)
		}
	}()
	if err = l.counts.log.Append(g); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return nil
}

// decide decides changes one after the other. Each sees the decisions
// before it, which are in the group.
func (l *Ledger) decide(changes []*change) {
	for _, c := range changes {
		c.err = nil
		switch {
		case l.closed.Load():
			c.err = store.ErrClosed
			continue
		case c.day.dropped, c.hasTotal && c.total.dropped:
			c.err = errDayNotLoaded
			continue
		}
		switch c.kind {
		case take:
			l.decideTake(c)
		case settle:
			l.decideSettle(c)
		}
	}
}

func (l *Ledger) decideTake(c *change) {
	cost := c.call.Weight()
	fits, err := l.fits(c, &l.commits.group)
	if err != nil || !fits {
		c.err = err
		return
	}
	if c.places.N == 0 {
		l.add(c, cost)
	} else {
		l.addTo(c, store.Taken(&c.call, c.limits, func(i int) int64 { return c.rooms[i].Used(&c.limits[i]) }))
	}
	for i := range c.limits {
		if limit := &c.limits[i]; limit.Period.IsPace() {
			c.rooms[i] = l.counts.paces.take(c, limit)
		} else {
			c.rooms[i].Remaining -= limit.Weight(cost)
		}
	}
	c.admitted = true
	l.keep(c)
}

func (l *Ledger) decideSettle(c *change) {
	l.keep(c)
	switch {
	case c.account.replaced():
	case c.places.N == 0:
		l.add(c, c.cost-c.call.Weight())
	default:
		l.addTo(c, store.Settled(&c.call, c.limits, c.rooms, c.cost, c.refund))
	}
}

// add adds to the counters of a call that counts nowhere else.
func (l *Ledger) add(c *change, cost int64) {
	l.addOne(c, c.day, c.account.number, cost)
	if c.call.Key != "" {
		l.addOne(c, c.day, c.key, cost)
	}
}

// addTo adds to all counters of a call.
func (l *Ledger) addTo(c *change, amounts store.Amounts) {
	for _, p := range c.places.All() {
		day, holder := c.day, c.account.number
		if p.Day == store.TotalDay {
			day = c.total
		}
		switch p.Key {
		case "":
		case store.CallsKey:
			holder = c.calls
		case store.OverageKey:
			holder = c.overage
		default:
			holder = c.key
		}
		l.addOne(c, day, holder, amounts[p.Counts])
	}
}

// addOne adds to a counter in the group. It does not fall below zero. After the
// account is deleted, one at zero stays there: its counts may have moved, to make
// room for another account.
func (l *Ledger) addOne(c *change, d *day, holder uint32, more int64) {
	used := d.find(holder, c.endpoint).value(&l.commits.group)
	switch {
	case more > 0 && (used > 0 || !c.account.deleted()):
		l.set(c, d, holder, store.Sum(used, more))
	case more < 0 && used > 0:
		l.set(c, d, holder, max(0, used+more))
	}
}

// set sets a holder's counter in the group.
func (l *Ledger) set(c *change, d *day, holder uint32, used int64) {
	g, n := &l.commits.group, d.counter(holder, c.endpoint)
	if n.place == 0 {
		g.Counts = append(g.Counts, Count{Holder: l.accounts.at(holder).id, Endpoint: c.call.Endpoint, Day: d.date, counter: n})
		n.place = uint32(len(g.Counts))
	}
	g.Counts[n.place-1].Used = used
}

// value returns the value of a counter. With a group, its decisions are
// included.
func (n *counter) value(g *Group) int64 {
	switch {
	case n == nil:
		return 0
	case g != nil && n.place != 0:
		return g.Counts[n.place-1].Used
	}
	return n.used
}

// finish applies the group, unless it could not be written. Then all of its
// changes fail, calls that were refused as well: what they were refused for
// may not have happened.
func (l *Ledger) finish(changes []*change, err error) {
	g := &l.commits.group
	for i := range g.Counts {
		n := g.Counts[i].counter
		n.place = 0
		if err == nil {
			n.used, n.moved = g.Counts[i].Used, true
		}
	}
	clear(g.Counts)
	clear(g.Receipts)
	g.Counts, g.Receipts, g.Sync = g.Counts[:0], g.Receipts[:0], false
	for _, c := range changes {
		switch {
		case c.err != nil:
		case err != nil:
			c.err, c.admitted = err, false
		case c.kind == settle && !c.refund: // not before: it can be tried again
			l.counts.paces.settle(c)
		}
	}
}
