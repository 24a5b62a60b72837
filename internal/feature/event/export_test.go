package event

import (
	"context"
	"net"
)

// DialWith makes a Sender that does not run connect with dial.
func (s *Sender) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	s.transport.DialContext = dial
}
