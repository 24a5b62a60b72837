package gate

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// parked is a call of a program until it is settled.
type parked struct {
	own   *reservation // nil once it is settled
	rooms []store.Room
	until time.Time
}

// heldAmongGates is how long a call holds its reservation if the store has several
// gates: the gate does not learn that another one has settled the call.
const heldAmongGates = time.Minute

// maxParked is how many calls of programs hold reservations, up to 1.3 KiB for each.
// Above it, the oldest ones do not any more: what they have taken counts as used.
const maxParked = 1 << 15

func (r *Reservations) newParking() *lru.Cache[string, *parked] {
	cache, _ := lru.NewWithEvict(maxParked, func(_ string, p *parked) { // it fails only for a size below 1
		if own := r.leave(p); own != nil {
			r.settled(own)
			r.forget(own)
		}
	})
	return cache
}

// park keeps the reservation and the rooms of a call until unpark, or until a time.
func (r *Reservations) park(name string, own *reservation, rooms []store.Room, until time.Time) {
	r.end(name) // of a former account with the id: Add would forget it
	r.parking.Add(name, &parked{own, rooms, until})
}

// unpark returns what park has, nil if that is no longer known.
func (r *Reservations) unpark(name string) (own *reservation, rooms []store.Room) {
	p, found := r.parking.Peek(name)
	if !found {
		return nil, nil
	}
	own = r.leave(p)
	r.parking.Remove(name)
	return own, p.rooms
}

// end ends the reservation of a call that is settled, if it has one.
func (r *Reservations) end(name string) { r.parking.Remove(name) }

// leave returns the reservation of a parked call once, then nil.
func (r *Reservations) leave(p *parked) (own *reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, p.own = p.own, nil
	return own
}

// expire ends the reservations whose time is over.
func (r *Reservations) expire(now time.Time) {
	for name, p, found := r.parking.GetOldest(); found && now.After(p.until); name, p, found = r.parking.GetOldest() {
		r.end(name)
	}
}
