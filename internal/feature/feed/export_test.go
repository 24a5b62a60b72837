package feed

import (
	"context"
	"net"
	"time"
)

// LookBack is lookBack.
const LookBack = lookBack

// DialWith makes a feed connect with dial.
func (f *Feed) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	f.transport.DialContext = dial
}

// TimeOf is timeOf.
func TimeOf(now, end time.Time, before int64) int64 { return timeOf(now, end, before) }
