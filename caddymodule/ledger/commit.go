package ledger

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Change is a row to write beside the counts. A nil value deletes it.
type Change struct {
	Key       []byte
	Value     []byte
	ExpiresAt time.Time // zero: never
}

// Group is what is written as one transaction.
type Group struct {
	// Counts holds the new value of each counter that moved.
	Counts []CountChange
	// Changes holds other rows. Those that were handed over together
	// stand together.
	Changes []Change
	// Sync asks that the group has reached the disk, not only the
	// operating system, before Append returns.
	Sync bool

	number  uint32
	waiting atomic.Int32 // callers that have not yet read err
	turn    chan struct{}
	err     error
}

// CountChange is a counter's new value.
type CountChange struct {
	store.Call
	Used int64
}

// commits is the group commit. A caller that finds no commit under way
// commits at once, for itself and alone; those that come meanwhile gather
// in the next group, and one of them commits for all. There is no timer
// and no goroutine: under no load a call waits for nobody, and under load
// a transaction is as large as what arrived during the one before.
type commits struct {
	log Log

	mu     sync.Mutex
	busy   bool   // somebody commits
	open   *Group // gathers callers while busy
	number uint32
	groups sync.Pool
}

// ticket is a caller's place in a group.
type ticket struct {
	group *Group
	leads bool
}

// count adds a counter's value to the group that is gathering. The
// counter's lock is held, so the values of one counter enter the groups
// in their order.
func (c *commits) count(call store.Call, n *counter) ticket {
	if c.log == nil {
		return ticket{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.join()
	g := t.group
	if n.group == g.number && int(n.place) < len(g.Counts) && g.Counts[n.place].Call == call {
		g.Counts[n.place].Used = n.used
		return t
	}
	n.group, n.place = g.number, uint32(len(g.Counts))
	g.Counts = append(g.Counts, CountChange{Call: call, Used: n.used})
	return t
}

// changes adds rows to the group that is gathering.
func (c *commits) changes(rows []Change, sync bool) ticket {
	if c.log == nil {
		return ticket{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.join()
	t.group.Changes = append(t.group.Changes, rows...)
	t.group.Sync = t.group.Sync || sync
	return t
}

// join finds the caller a group: its own if nobody commits, which it then
// leads, or the one that gathers.
func (c *commits) join() ticket {
	if !c.busy {
		c.busy = true
		return ticket{group: c.newGroup(), leads: true}
	}
	if c.open == nil {
		c.open = c.newGroup()
		c.open.turn = make(chan struct{}, 1)
	}
	c.open.waiting.Add(1)
	return ticket{group: c.open}
}

func (c *commits) newGroup() *Group {
	g, _ := c.groups.Get().(*Group)
	if g == nil {
		g = &Group{}
	}
	c.number++
	g.number = c.number
	return g
}

// wait returns when the ticket's group is committed, having committed it
// if that falls to this caller.
func (c *commits) wait(t ticket) error {
	g := t.group
	if g == nil {
		return nil
	}
	if t.leads {
		err := c.log.Append(g)
		c.pass()
		c.recycle(g)
		return err
	}
	// The turn carries one message, to whoever gets it first: commit for
	// all. It is closed when that is done.
	if _, leads := <-g.turn; leads {
		c.mu.Lock()
		c.open = nil
		c.mu.Unlock()
		g.err = c.log.Append(g)
		c.pass()
		close(g.turn)
	}
	err := g.err
	if g.waiting.Add(-1) == 0 {
		c.recycle(g)
	}
	return err
}

// pass hands the log to the group that gathered meanwhile, if any.
func (c *commits) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.busy = false
		return
	}
	c.open.turn <- struct{}{}
}

// recycle keeps a group's memory for the next one. Nobody holds the group
// any more; a counter that still names it names a number that is past.
func (c *commits) recycle(g *Group) {
	clear(g.Counts)
	clear(g.Changes)
	g.Counts, g.Changes = g.Counts[:0], g.Changes[:0]
	g.Sync, g.turn, g.err = false, nil, nil
	c.groups.Put(g)
}
