package gate

import (
	"slices"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Reservations knows what calls in progress have taken from limits before they
// tell what they cost. It outlives configurations, so that a reload forgets no
// call, and it knows the calls of this process only.
type Reservations struct {
	mu       sync.Mutex
	accounts map[string]*inProgress
	parking  *lru.Cache[string, *parked] // the calls of programs by name, oldest first
}

// NewReservations returns a Reservations without calls.
func NewReservations() *Reservations {
	r := &Reservations{accounts: map[string]*inProgress{}}
	r.parking = r.newParking()
	return r
}

// inProgress is the reservations of an account.
type inProgress struct {
	users    int // calls that have a reservation of the account
	taken    map[part]int64
	deciding []*reservation // the store has them now
	ended    int            // how many were settled
	refused  bool           // the store has refused a call meanwhile
}

// part is what a reservation counts for, as in store.Call.
type part struct {
	key, endpoint string
	day           calendar.Day
}

// reservation is that of one call. A refused call has one until it is answered:
// it holds nothing, and tells what ended meanwhile.
type reservation struct {
	*inProgress
	part
	account string
	cost    int64
	// seen is the number of those that had ended before the store had the call.
	seen      int
	undecided sync.Mutex // held until the store has decided
	admitted  bool
}

// begin makes a reservation, before the store has the call.
func (r *Reservations) begin(call *store.Call) *reservation {
	r.expire(call.At)
	n := &reservation{part: part{call.Key, call.Endpoint, call.Day}, account: call.Account, cost: call.Weight()}
	n.undecided.Lock()
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.accounts[call.Account]
	if a == nil {
		a = &inProgress{taken: map[part]int64{}}
		r.accounts[call.Account] = a
	}
	a.users++
	a.deciding = append(a.deciding, n)
	n.inProgress, n.seen = a, a.ended
	return n
}

// decided says whether the store has admitted the call.
func (r *Reservations) decided(n *reservation, admitted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.admitted = admitted; admitted {
		n.taken[n.part] += n.cost
	}
	n.deciding = slices.DeleteFunc(n.deciding, func(other *reservation) bool { return other == n })
	n.undecided.Unlock()
}

// settled says that the store has settled the call, or will not. It tells whether
// a call was refused meanwhile.
func (r *Reservations) settled(n *reservation) (refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.taken[n.part] -= n.cost; n.taken[n.part] == 0 {
		delete(n.taken, n.part)
	}
	n.ended++
	n.seen = n.ended
	return n.refused
}

// forget ends a reservation that holds nothing.
func (r *Reservations) forget(n *reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n.users--; n.users == 0 {
		delete(r.accounts, n.account)
	}
}

// reserve takes the cost of a call from its limits until it is settled.
func (c *Call) reserve(call store.Call, limits []store.Limit, rooms []store.Room) (admitted bool, err error) {
	c.mark.reservation = c.gate.Reservations.begin(&call)
	defer func() { c.gate.Reservations.decided(c.mark.reservation, admitted) }()
	return c.store.Take(c.request.Context(), call, limits, rooms)
}

// takeReservation returns the reservation of a call that is settled once.
func (c *Call) takeReservation() (own *reservation) {
	own, c.mark.reservation = c.mark.reservation, nil
	return own
}

// forgetReservation ends the reservation of a call that is not admitted.
func (c *Call) forgetReservation() {
	if own := c.takeReservation(); own != nil {
		c.gate.Reservations.forget(own)
	}
}

// held returns how much of each limit other calls may give back, and nil for
// nothing. It is all that is used if a reservation ended since the store had the
// call of own: that one may be why a limit is full.
func (c *Call) held(rooms []store.Room, own *reservation) []int64 {
	if !c.gate.reserves {
		return nil
	}
	all := c.gate.Reservations
	all.mu.Lock()
	a := all.accounts[c.grant.Account]
	if a == nil {
		all.mu.Unlock()
		return nil
	}
	held, ended := make([]int64, len(c.limits)), false
	if own != nil {
		ended = a.ended > own.seen
		a.refused = a.refused || !own.admitted
	}
	for of, cost := range a.taken {
		c.addHeld(held, of, cost)
	}
	deciding := slices.Clone(a.deciding)
	all.mu.Unlock()
	for _, other := range deciding {
		other.undecided.Lock()
		if other.admitted {
			c.addHeld(held, other.part, other.cost)
		}
		other.undecided.Unlock()
	}
	for i, limit := range c.limits {
		used := limit.Max - rooms[i].Remaining + rooms[i].Over
		if ended && c.canHold(limit) || held[i] > used {
			held[i] = used
		}
	}
	return held
}

// canHold tells whether calls in progress can hold something of a limit of the
// call. Paces and calls are not given back, and addresses have no reservations.
func (c *Call) canHold(limit store.Limit) bool {
	return !limit.Period.IsPace() && !limit.OfAddress && !limit.Calls && (limit.Endpoint == store.All || c.endpoint.Answer != nil)
}

// addHeld adds a reservation to what is held of the limits that cover it.
func (c *Call) addHeld(held []int64, of part, cost int64) {
	call := c.storeCall()
	for i, limit := range c.limits {
		covered := of.endpoint == call.Endpoint || limit.Endpoint == store.All && of.endpoint != call.Except
		if c.canHold(limit) && covered && (limit.Period == store.Total || call.Window(&limit).Has(of.day)) && (!limit.OfKey || of.key == call.Key) {
			held[i] += cost
		}
	}
}
