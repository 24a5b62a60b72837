package ledger

import (
	"errors"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Take admits a call. See store.Counter.
func (l *Ledger) Take(call store.Call, limits []store.Limit, rooms []store.Room) (admitted bool, err error) {
	c := l.newChange(take, &call, limits, rooms)
	defer c.release()
	err = l.run(c)
	return c.admitted, err
}

// Rooms returns the room of each limit of a call. See store.Counter. Calls
// that are being committed have not taken from quotas yet.
func (l *Ledger) Rooms(call store.Call, limits []store.Limit, rooms []store.Room) error {
	c := l.newChange(look, &call, limits, rooms)
	defer c.release()
	return l.run(c)
}

// Settle changes what a call counts. See store.Counter.
func (l *Ledger) Settle(call store.Call, limits []store.Limit, rooms []store.Room, cost int64, refund bool) error {
	c := l.newChange(settle, &call, limits, rooms)
	defer c.release()
	c.cost, c.refund = cost, refund
	return l.run(c)
}

// Errors of a change that needs counts which are not in memory.
var (
	errDayNotLoaded  = errors.New("a day is not in memory")
	errSumsNotLoaded = errors.New("the sums of a week or a month are not in memory")
)

// run makes a change. It loads the counts that the change needs, and again
// if they are dropped before the change is decided.
func (l *Ledger) run(c *change) error {
	for {
		if ready := l.prepare(c); ready {
			l.commit(c)
		}
		err := c.err
		switch {
		case errors.Is(err, errDayNotLoaded):
			if err = l.load(c.call.Day); err == nil && c.hasTotal {
				err = l.load(store.TotalDay)
			}
		case errors.Is(err, errSumsNotLoaded):
			err = l.loadSums(c.holder(c.missing), c.missing.Period, c.call.Window(c.missing))
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// prepare tells whether a change is ready to be committed. A call that an
// exhausted limit refuses does not wait for a commit, and without a log no
// change does.
func (l *Ledger) prepare(c *change) (ready bool) {
	t := &l.counts
	t.mu.Lock()
	defer t.mu.Unlock()
	c.day, c.endpoint, c.err = t.day(c.call.Day), l.endpoints.index(c.call.Endpoint), nil
	if c.hasTotal {
		c.total = t.day(store.TotalDay)
	}
	switch {
	case l.closed.Load():
		c.err = store.ErrClosed
		return false
	case c.day == nil || c.hasTotal && c.total == nil:
		c.err = errDayNotLoaded
		return false
	case t.log == nil && c.kind != look:
		l.apply([]*change{c})
		return false
	case c.kind != take && c.kind != look:
		return true
	}
	var fits bool
	fits, c.err = l.fits(c, nil)
	return fits && c.err == nil && c.kind == take
}

// fits tells whether a call has room in each of its limits, and sets what
// each has left. The decisions of the group that is being committed are
// included unless group is nil.
func (l *Ledger) fits(c *change, group *Group) (fits bool, err error) {
	if c.account.deleted() {
		return false, store.ErrNoGrant
	}
	fits = true
	for i := range c.limits {
		limit := &c.limits[i]
		if limit.Period.IsPace() {
			c.rooms[i] = l.counts.paces.room(c, limit)
		} else {
			used, err := l.used(c, limit, group)
			if err != nil {
				return false, err
			}
			left := limit.Max - used // as in Limit.RoomAfter
			c.rooms[i] = store.Room{Remaining: max(0, left), Over: max(0, -left)}
		}
		fits = fits && c.rooms[i].Remaining >= limit.Weight(c.call.Weight())
	}
	return fits, nil
}

// used returns what is used of a quota.
func (l *Ledger) used(c *change, limit *store.Limit, group *Group) (used int64, err error) {
	switch limit.Period {
	case store.Day:
		return l.usedIn(&c.day.table, c, limit, group), nil
	case store.Total:
		return l.usedIn(&c.total.table, c, limit, group), nil
	}
	s, days := l.counts.sums(limit.Period), c.call.Window(limit)
	if !s.has(c.holder(limit), days) {
		c.missing = limit
		return 0, errSumsNotLoaded
	}
	used = l.usedIn(&s.table, c, limit, group)
	for _, d := range l.counts.days {
		if days.Has(d.date) {
			used = store.Sum(used, l.usedIn(&d.table, c, limit, group))
		}
	}
	return used, nil
}

func (l *Ledger) usedIn(s *table, c *change, limit *store.Limit, group *Group) (used int64) {
	if limit.Endpoint != store.All {
		return s.find(c.holder(limit), c.endpoint).value(group)
	}
	except, excepted := l.endpoints.find(c.call.Except)
	s.counters(c.holder(limit), func(endpoint uint32, n *counter) {
		if !excepted || endpoint != except {
			used = store.Sum(used, n.value(group))
		}
	})
	return used
}
