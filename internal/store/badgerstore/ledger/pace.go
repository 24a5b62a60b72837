package ledger

import (
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// paces has the buckets of paces that are not full. They are in memory only:
// a restart fills them. The counts' lock guards it.
//
// A bucket changes when its call is decided, before the log has the call. If
// the log fails, the bucket keeps the cost of a call that is not admitted.
type paces struct {
	// epoch is the zero of the clock of the buckets: a year before the first
	// call, because the zero Bucket means a full one. It has the monotonic
	// reading of that call, so a changed date does not change the times since.
	epoch   time.Time
	buckets map[bucketID]store.Bucket
}

// bucketID is the bucket of a limit.
type bucketID struct {
	holder   uint32
	endpoint uint32 // allEndpoints for store.All
	period   store.Period
}

const allEndpoints = ^uint32(0)

const year = 365 * 24 * time.Hour

// find returns the bucket of a limit, which is full if it is not there.
func (p *paces) find(c *change, limit *store.Limit) (id bucketID, bucket store.Bucket, now time.Duration) {
	if p.buckets == nil {
		p.epoch, p.buckets = c.call.At.Add(-year), map[bucketID]store.Bucket{}
	}
	id = bucketID{holder: c.holder(limit), endpoint: c.endpoint, period: limit.Period}
	if limit.Endpoint == store.All {
		id.endpoint = allEndpoints
	}
	return id, p.buckets[id], c.call.At.Sub(p.epoch)
}

func (p *paces) room(c *change, limit *store.Limit) store.Room {
	_, bucket, now := p.find(c, limit)
	return bucket.Room(*limit, now)
}

// take takes the cost of a call for which the pace has room, and returns the
// room that is left.
func (p *paces) take(c *change, limit *store.Limit) store.Room {
	id, bucket, now := p.find(c, limit)
	if bucket == (store.Bucket{}) {
		p.sweep(now)
	}
	bucket.Take(*limit, now, limit.Weight(c.call.Weight()))
	p.buckets[id] = bucket
	return bucket.Room(*limit, now)
}

// settle sets the paces of a call right.
func (p *paces) settle(c *change) {
	for i := range c.limits {
		if limit := &c.limits[i]; limit.Period.IsPace() && !limit.Calls && !c.account.deleted() {
			id, bucket, now := p.find(c, limit)
			bucket.Settle(*limit, now, c.rooms[i].Busy, c.call.Weight(), c.cost)
			p.buckets[id] = bucket
		}
	}
}

// remove removes the buckets of a holder of an account that is deleted. Those of its keys
// are never used again.
func (p *paces) remove(holder, endpoints uint32) {
	for period := store.Second; period <= store.Hour; period++ {
		delete(p.buckets, bucketID{holder, allEndpoints, period})
		for endpoint := range endpoints {
			delete(p.buckets, bucketID{holder, endpoint, period})
		}
	}
}

// sweep looks at a few buckets, in Go's random order of maps, and removes the
// full ones. It runs for each new bucket, so that there are never many more
// than those in use, and no call waits until all are swept.
func (p *paces) sweep(now time.Duration) {
	const perSweep = 4
	looked := 0
	for id, bucket := range p.buckets {
		if bucket.IsFull(now) {
			delete(p.buckets, id)
		}
		if looked++; looked == perSweep {
			return
		}
	}
}
