package event

import (
	"context"
	"net"
)

// DialWith makes a webhook connect with dial.
func (w *Webhook) DialWith(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	w.transport.DialContext = dial
}
