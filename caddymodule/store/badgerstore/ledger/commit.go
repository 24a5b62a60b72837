package ledger

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// MaxGroup is how many counters a group moves at the most.
const MaxGroup = 4096

// Group is what is written as one record.
type Group struct {
	// Counts holds the new value of each counter that moved.
	Counts []CountChange
	// Sync asks that the group has reached the disk, not only the
	// operating system, before Append returns.
	Sync bool

	number  uint32
	places  map[*counter]int // of the entries of a full group, once somebody searched it
	waiting atomic.Int32     // callers that have not yet read err
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

	// given is how many calls were given back or forgotten; see
	// commits.given.
	given int64
}

// commits is the group commit. A caller that finds no commit under way
// commits at once, for itself and alone; those that come meanwhile gather
// in the next group, and one of them commits for all. There is no timer
// and no goroutine: under no load a call waits for nobody, and under load
// a group is as large as what arrived during the one before. Only when
// MaxGroup counters wait, as behind a disk that stands still, does another
// group gather behind that.
type commits struct {
	log Log

	mu     sync.Mutex
	busy   bool     // somebody commits
	queue  []*Group // gather callers while busy, oldest first; the last takes more
	number uint32
	groups sync.Pool

	// given is by how much counters were lowered by groups that are not
	// committed yet. Nobody may be let in on the strength of that: should
	// the commit fail, the calls were not given back. lowered is how many
	// counters given has, for all those who find none there.
	given   map[*counter]int64
	lowered atomic.Int32
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
	if used < n.used {
		e.given += n.used - used
		c.give(n, n.used-used)
	}
	n.used, e.Used = used, used
	e.reset = e.reset || reset
	g.Sync = g.Sync || reset // whoever asked for it is told that it is done
	return t
}

// most returns what a counter comes to if what was given back is not. The
// lock of the counter's shard is held.
func (c *commits) most(n *counter) int64 {
	if c.lowered.Load() == 0 {
		return n.used
	}
	return c.mostGiven(n)
}

func (c *commits) mostGiven(n *counter) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.used + c.given[n]
}

// give notes that so much more of a counter is being given back, or less.
func (c *commits) give(n *counter, calls int64) {
	if c.given == nil {
		c.given = map[*counter]int64{}
	}
	if c.given[n] += calls; c.given[n] == 0 {
		delete(c.given, n)
	}
	c.lowered.Store(int32(len(c.given)))
}

// find returns the counter's entry in the group, if it has one and none in
// a later group. Numbers of groups come round again, hence the second look.
func (g *Group) find(n *counter) *CountChange {
	if n.group == g.number && int(n.place) < len(g.Counts) && g.Counts[n.place].counter == n {
		return &g.Counts[n.place]
	}
	return nil
}

// full tells whether the group takes nothing more, and another follows it.
func (g *Group) full() bool { return len(g.Counts) >= MaxGroup }

// search returns the counter's entry in the group, if it has one.
func (g *Group) search(n *counter) *CountChange {
	if e := g.find(n); e != nil || !g.full() {
		return e // there is no later group
	}
	if g.places == nil {
		g.places = make(map[*counter]int, len(g.Counts))
		for i := range g.Counts {
			g.places[g.Counts[i].counter] = i
		}
	}
	if i, ok := g.places[n]; ok {
		return &g.Counts[i]
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
	last := len(c.queue) - 1
	if last < 0 || c.queue[last].full() {
		g := c.newGroup()
		g.turn = make(chan struct{}, 1)
		c.queue = append(c.queue, g)
		last++
	}
	g := c.queue[last]
	g.waiting.Add(1)
	return ticket{group: g}
}

func (c *commits) newGroup() *Group {
	g, _ := c.groups.Get().(*Group)
	if g == nil {
		g = &Group{}
	}
	if c.number++; c.number == 0 {
		c.number++ // 0 marks a counter that never moved
	}
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
		c.queue = slices.Delete(c.queue, 0, 1) // this group: its turn came
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
		c.pass(g)
	}()
	if err = c.log.Append(g); err != nil {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

// undo takes back what a group that failed had decided. The log has not
// been handed on yet, so no later group has been written: what they hold
// is put right as well, or the next commit would make the failed calls
// count after all.
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

// takeBack undoes one entry of a failed group, and with it what the later
// groups have made of it. Where calls were given back meanwhile that a
// reset had forgotten, the difference could lead below zero.
func (c *commits) takeBack(e *CountChange) {
	shift := e.Used - e.before
	for _, g := range c.queue {
		later := g.search(e.counter)
		if later == nil {
			continue
		}
		later.before = max(0, later.before-shift)
		if later.reset {
			// It forgets that much more, if it succeeds.
			if shift < 0 {
				later.given -= shift
				c.give(e.counter, -shift)
			}
			return
		}
		was := later.Used
		later.Used = max(0, was-shift)
		shift = was - later.Used
	}
	e.counter.used = max(0, e.counter.used-shift)
}

// pass hands the log to the group that gathered first meanwhile, if any.
func (c *commits) pass(g *Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lowered.Load() != 0 {
		for i := range g.Counts {
			if e := &g.Counts[i]; e.given != 0 {
				c.give(e.counter, -e.given)
			}
		}
	}
	if len(c.queue) == 0 {
		c.busy = false
		return
	}
	c.queue[0].turn <- struct{}{}
}

// recycle keeps a group's memory for the next one. Nobody holds the group
// any more; a counter that still names it names a number that is past.
func (c *commits) recycle(g *Group) {
	clear(g.Counts)
	g.Counts = g.Counts[:0]
	g.Sync, g.turn, g.err, g.places = false, nil, nil, nil
	c.groups.Put(g)
}
