package ledger

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Group is what is written as one record.
type Group struct {
	// Counts holds the new value of each counter that moved.
	Counts []CountChange
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

	// What it takes to undo it: the counter and its lock, the value before,
	// and whether the counter was reset, which makes what was before
	// irrelevant.
	shard   *dayShard
	counter *counter
	before  int64
	reset   bool
}

// commits is the group commit. A caller that finds no commit under way
// commits at once, for itself and alone; those that come meanwhile gather
// in the next group, and one of them commits for all. There is no timer
// and no goroutine: under no load a call waits for nobody, and under load
// a group is as large as what arrived during the one before.
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

// count sets a counter, here and in the group that is gathering. The
// shard's lock is held, so the values of one counter enter the groups in
// their order.
func (c *commits) count(call store.Call, shard *dayShard, n *counter, used int64, reset bool) ticket {
	if c.log == nil {
		n.used = used
		return ticket{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.join()
	g := t.group
	e := g.find(n)
	if e == nil {
		n.group, n.place = g.number, uint32(len(g.Counts))
		g.Counts = append(g.Counts, CountChange{Call: call, shard: shard, counter: n, before: n.used})
		e = &g.Counts[n.place]
	}
	n.used, e.Used = used, used
	e.reset = e.reset || reset
	g.Sync = g.Sync || reset // whoever asked for it is told that it is done
	return t
}

// find returns the counter's entry in the group, if it has one. Numbers
// of groups come round again, hence the second look.
func (g *Group) find(n *counter) *CountChange {
	if n.group == g.number && int(n.place) < len(g.Counts) && g.Counts[n.place].counter == n {
		return &g.Counts[n.place]
	}
	return nil
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
		err := c.commit(g)
		c.recycle(g)
		return err
	}
	// The turn carries one message, to whoever gets it first: commit for
	// all. It is closed when that is done.
	if _, leads := <-g.turn; leads {
		c.mu.Lock()
		c.open = nil
		c.mu.Unlock()
		g.err = c.commit(g)
		close(g.turn)
	}
	err := g.err
	if g.waiting.Add(-1) == 0 {
		c.recycle(g)
	}
	return err
}

// commit writes a group and hands the log on, whatever happens: nobody
// may be left waiting for a commit that never comes.
func (c *commits) commit(g *Group) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: the log panicked: %v", store.ErrUnavailable, r)
		}
		if err != nil {
			c.undo(g)
		}
		c.pass()
	}()
	if err = c.log.Append(g); err != nil {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// undo takes back what a group that failed had decided. The log has not
// been handed on yet, so one later group exists at the most, and it has
// not been written: what it holds is put right as well, or the next
// commit would make the failed calls count after all.
func (c *commits) undo(g *Group) {
	for i := range g.Counts {
		e := &g.Counts[i]
		e.shard.mu.Lock()
		c.mu.Lock()
		c.takeBack(e)
		c.mu.Unlock()
		e.shard.mu.Unlock()
	}
}

// takeBack undoes one entry of a failed group. Where calls were given
// back meanwhile that a reset had forgotten, the difference could lead
// below zero.
func (c *commits) takeBack(e *CountChange) {
	shift := e.Used - e.before
	if c.open != nil {
		if later := c.open.find(e.counter); later != nil {
			later.before = max(0, later.before-shift)
			if later.reset {
				return
			}
			later.Used = max(0, later.Used-shift)
		}
	}
	e.counter.used = max(0, e.counter.used-shift)
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
	g.Counts = g.Counts[:0]
	g.Sync, g.turn, g.err = false, nil, nil
	c.groups.Put(g)
}
