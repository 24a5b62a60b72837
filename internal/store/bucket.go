package store

import (
	"math/bits"
	"time"
)

// Bucket is the level of a pace: a token bucket by the generic cell rate
// algorithm (GCRA). Its capacity is the limit's Max, and it is refilled evenly
// over the period. The zero Bucket is full.
//
// A level is the instant at which the bucket is full again. It is exact, not
// rounded: Max calls at once are admitted whatever Max is, and never more than
// the capacity and what is refilled meanwhile. A level is at most a period in
// the future, so a bucket keeps its share when Max changes.
type Bucket struct {
	Full time.Duration // an instant of the store's clock
	Part uint64        // and Part/Max of a nanosecond
	Busy time.Duration // the instant since which it is not full
}

// Room returns what a pace still admits at an instant of the store's clock.
func (b Bucket) Room(limit Limit, now time.Duration) Room {
	debt, part := b.debt(limit, now)
	room := limit.RoomOf(uint64(debt), part, time.Nanosecond)
	room.Busy = b.Busy
	return room
}

// RoomOf returns what a pace still admits if its bucket is full after debt
// units of time, and part/Max of another unit. A period is a number of units.
func (l Limit) RoomOf(debt, part uint64, unit time.Duration) Room {
	room := Room{Full: time.Duration(debt) * unit}
	if part > 0 {
		room.Full += unit
	}
	period := uint64(l.Period.Pace() / unit)
	if room.Full > l.Period.Pace() {
		return room
	}
	// (period - debt) / period * Max, and the part is a part of Max already.
	high, low := bits.Mul64(period-debt, uint64(l.Max))
	low, borrow := bits.Sub64(low, part, 0)
	remaining, _ := bits.Div64(high-borrow, low, period)
	room.Remaining = int64(remaining)
	return room
}

// Take takes a cost for which the pace has room.
func (b *Bucket) Take(limit Limit, now time.Duration, cost int64) {
	busy := b.Busy
	if b.IsFull(now) {
		busy = now
	}
	debt, part := b.debt(limit, now)
	more, morePart := limit.CostTime(cost, time.Nanosecond)
	b.Full, b.Part, b.Busy = now+debt+time.Duration(more), part+morePart, busy
	if b.Part >= uint64(limit.Max) {
		b.Full++
		b.Part -= uint64(limit.Max)
	}
}

// GiveBack gives back what Take took, if the bucket was not full since.
func (b *Bucket) GiveBack(limit Limit, cost int64) {
	less, lessPart := limit.CostTime(cost, time.Nanosecond)
	if b.Part < lessPart {
		b.Full--
		b.Part += uint64(limit.Max)
	}
	b.Full, b.Part = b.Full-time.Duration(less), b.Part-lessPart
}

// Settle sets right what a call has taken, from one cost to another. A bucket that
// was full since, as busy tells, gets nothing back: so what is taken since a bucket
// was full is never more than its capacity and the refill since. Where the bucket
// has less than the call costs more, it takes what there is.
func (b *Bucket) Settle(limit Limit, now, busy time.Duration, from, to int64) {
	switch {
	case to > from:
		most := max(b.Full, now+limit.Period.Pace())
		if b.Take(limit, now, min(to-from, limit.Max)); b.Full >= most {
			b.Full, b.Part = most, 0
		}
	case !b.IsFull(now) && b.Busy == busy:
		b.GiveBack(limit, from-to)
	}
}

// debt returns the time until the bucket is full, and the part of another
// nanosecond.
func (b Bucket) debt(limit Limit, now time.Duration) (time.Duration, uint64) {
	switch {
	case b.IsFull(now):
		return 0, 0
	case b.Part >= uint64(limit.Max): // of a greater Max before
		return b.Full - now + 1, 0
	}
	return b.Full - now, b.Part
}

func roundUp(d time.Duration, part uint64) time.Duration {
	if part > 0 {
		d++
	}
	return d
}

// IsFull tells whether the bucket is full at an instant.
func (b Bucket) IsFull(now time.Duration) bool { return b.Full < now || b == Bucket{} }

// Wait returns the time after which a pace with this room admits a cost if
// nothing else is taken meanwhile. The cost is at most Max.
func (l Limit) Wait(room Room, cost int64) time.Duration {
	whole, part := l.CostTime(cost, time.Nanosecond)
	return max(0, room.Full+roundUp(time.Duration(whole), part)-l.Period.Pace())
}

// CostTime returns the time in which a pace refills a cost of at most Max: a
// number of units, and part/Max of another unit.
func (l Limit) CostTime(cost int64, unit time.Duration) (whole, part uint64) {
	high, low := bits.Mul64(uint64(cost), uint64(l.Period.Pace()/unit))
	return bits.Div64(high, low, uint64(l.Max))
}
