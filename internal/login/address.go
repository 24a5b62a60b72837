package login

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// AddressCall is a call of a client without an account. The limits of the client
// cover all of its calls together. A call takes its cost from all of them, or
// from none.
type AddressCall struct {
	Client   Client
	Calendar *calendar.Calendar
	Limits   []store.Limit // at most one for each period, each at least 1
	Cost     int64
	// At is the time of the cells when they last returned rooms.
	At time.Time

	limiter *Limiter
	taken   levels // after the call was admitted
}

// Take counts a call if each limit of the client has room for its cost. It sets
// rooms to what the limits admit then, or before the call if it is refused: also
// when a day or a month ends. With peek, it counts nothing. After an error, the call may be counted.
func (l *Limiter) Take(ctx context.Context, c *AddressCall, rooms []store.Room, peek bool) (admitted bool, err error) {
	c.limiter = l
	err = c.edit(ctx, func(s *addressState) bool {
		if admitted = s.admits(c, rooms); admitted && !peek {
			s.take(c)
			s.admits(c, rooms)
		}
		return !peek && (admitted || s.setBack())
	})
	return admitted, err
}

// Settle changes the cost that an admitted call counts in a day and a month.
func (c *AddressCall) Settle(ctx context.Context, cost int64) error {
	return c.edit(ctx, func(s *addressState) bool { s.settle(c, cost); return true })
}

// Undo gives back all that an admitted call has taken, because something else
// refuses it. It sets rooms to what the limits admit then.
func (c *AddressCall) Undo(ctx context.Context, rooms []store.Room) error {
	return c.edit(ctx, func(s *addressState) bool {
		s.settle(c, 0)
		for _, limit := range c.Limits {
			// If the bucket was full since, it has refilled what the call took.
			if limit.Period.IsPace() && c.taken[limit.Period][0] >= s.instant {
				bucket := s.levels[limit.Period].bucket()
				bucket.GiveBack(limit, c.Cost)
				s.levels[limit.Period] = levelOf(bucket)
			}
		}
		s.admits(c, rooms)
		return true
	})
}

// ErrContended means that too many calls of an address change its cell at the same
// time. The call is not counted, and can be sent again.
var ErrContended = errContended

// edit changes the cell of the client, unless change returns false. Calls that
// change the cell of a client at this gate wait for each other, so that they do not
// make each other fail.
func (c *AddressCall) edit(ctx context.Context, change func(*addressState) bool) error {
	ctx, cancel := c.limiter.within(ctx)
	defer cancel()
	key := CellKey{AddressCell, c.Client.cellKey().ID}
	err := c.editCell(ctx, key, func(cell Cell) (Change, bool, error) {
		s, err := newAddressState(cell, c)
		if err != nil || !change(s) {
			return Change{}, false, err
		}
		return s.change(c), true, nil
	})
	if err != nil {
		return fmt.Errorf("counting a call of an address: %w", err)
	}
	return nil
}

func (c *AddressCall) editCell(ctx context.Context, key CellKey, change func(Cell) (Change, bool, error)) error {
	cell, err := c.limiter.read(ctx, key)
	if err != nil {
		return err
	}
	if _, wanted, err := change(cell); err != nil || !wanted {
		return err
	}
	done, waited, err := c.limiter.turns.wait(ctx, key)
	if err != nil {
		return err
	}
	defer done()
	if waited {
		if cell, err = c.limiter.read(ctx, key); err != nil {
			return err
		}
	}
	_, err = c.limiter.edit(ctx, key, cell, change)
	return err
}

// turns lets the calls of a client change its cell one after the other.
type turns struct {
	mu sync.Mutex
	of map[CellKey]*turn
}

type turn struct {
	taken chan struct{}
	calls int // that have it or wait for it
}

// mostTurns is how many calls of a client wait for each other.
const mostTurns = 256

// wait returns when it is the call's turn, with the function that ends it, and
// whether others were first. The error is ErrContended.
func (t *turns) wait(ctx context.Context, key CellKey) (done func(), waited bool, err error) {
	t.mu.Lock()
	one := t.of[key]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
		t.of[key] = one
	}
	if waited = one.calls > 0; one.calls == mostTurns {
		t.mu.Unlock()
		return nil, true, ErrContended
	}
	one.calls++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.calls--; one.calls == 0 {
			delete(t.of, key)
		}
	}
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; leave() }, waited, nil
	case <-ctx.Done():
		leave()
		return nil, true, ErrContended
	}
}

// addressState is what a client has used at one moment: the rule per address as a
// value, without a store.
type addressState struct {
	moment
	levels levels
}

// levels are what is used, by period.
type levels [store.Month + 1]level

// level is a bucket of a pace, in nanoseconds since 1970, or the first day of a
// period of the calendar and the cost that is used in it.
type level [2]int64

func (l level) bucket() store.Bucket {
	return store.Bucket{Full: time.Duration(l[0]), Part: uint64(l[1])}
}

func levelOf(b store.Bucket) level { return level{int64(b.Full), int64(b.Part)} }

// newAddressState reads the cell of a client, which has the version, the latest
// instant and the levels. It begins the days and months that have come since. A
// later one than now's is now's, so that a clock that is set back opens none.
func newAddressState(cell Cell, c *AddressCall) (*addressState, error) {
	s := &addressState{}
	var latest int64
	if len(cell.Value) > 0 {
		r := readCell(cell.Value)
		latest = r.instant(0)
		for period := store.Second; period <= store.Month; period++ {
			s.levels[period] = level{r.instant(0), r.instant(0)}
		}
		if err := r.end(); err != nil {
			return nil, err
		}
	}
	s.moment = place(cell.Now, latest)
	for _, limit := range c.Limits {
		l := &s.levels[limit.Period]
		if limit.Period.IsPace() {
			s.moveBack(&l[0])
			continue
		}
		first := max(0, int64(s.span(c, limit.Period).Day))
		if l[0] < first {
			l[1] = 0
		}
		if l[0] < first || s.setBack() { // not another zone
			l[0] = first
		}
	}
	return s, nil
}

func (s *addressState) span(c *AddressCall, period store.Period) *calendar.Span {
	return period.Span(c.Calendar, time.Unix(0, s.instant))
}

// admits sets rooms, and tells whether each limit has room for the cost.
func (s *addressState) admits(c *AddressCall, rooms []store.Room) bool {
	c.At = time.Unix(0, s.reading)
	admitted := true
	for i, limit := range c.Limits {
		l := s.levels[limit.Period]
		if !limit.Period.IsPace() {
			end := s.span(c, limit.Period).End
			rooms[i] = store.Room{Remaining: max(0, limit.Max-l[1]), Over: max(0, l[1]-limit.Max), Full: end.Sub(c.At)}
		} else if rooms[i] = l.bucket().Room(limit, time.Duration(s.instant)); rooms[i].Full > 0 {
			rooms[i].Full += time.Duration(s.instant - s.reading)
		}
		admitted = admitted && rooms[i].Remaining >= c.Cost
	}
	return admitted
}

func (s *addressState) take(c *AddressCall) {
	for _, limit := range c.Limits {
		if l := &s.levels[limit.Period]; limit.Period.IsPace() {
			bucket := l.bucket()
			bucket.Take(limit, time.Duration(s.instant), c.Cost)
			*l = levelOf(bucket)
		} else {
			l[1] += c.Cost
		}
	}
	c.taken = s.levels
}

// settle changes the cost of the call in the day and the month that it counts in.
func (s *addressState) settle(c *AddressCall, cost int64) {
	for _, limit := range c.Limits {
		if l := &s.levels[limit.Period]; !limit.Period.IsPace() && l[0] == c.taken[limit.Period][0] {
			l[1] = min(max(0, l[1]-c.Cost+cost), lastInstant)
		}
	}
}

func (s *addressState) change(c *AddressCall) Change {
	value := binary.LittleEndian.AppendUint64(append(make([]byte, 0, addressSize), cellVersion), uint64(s.instant))
	for _, l := range s.levels[store.Second:] {
		value = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(value, uint64(l[0])), uint64(l[1]))
	}
	expires := s.instant
	for _, limit := range c.Limits {
		end := s.levels[limit.Period][0] + 1
		if !limit.Period.IsPace() {
			end = s.span(c, limit.Period).End.UnixNano()
		}
		expires = max(expires, end)
	}
	return Change{Value: value, Expires: time.Unix(0, expires), Class: AddressClass}
}

// addressSize is the size of the cell of an address, in bytes.
const addressSize = 1 + 8 + 16*int(store.Month)
