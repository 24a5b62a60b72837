package redistest

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// port is a TCP port of loopback that no other server of this package has, also
// in another process, as long as the port is in use here.
type port struct {
	number int
	lock   net.PacketConn
}

// freePort returns a port that is not in use. It lies below the ports that Linux
// gives to outgoing connections: a server that is down for a while finds its
// port free when it restarts. The UDP port of that number is the lock. The ports
// below, from 10000, are those of package stack, which locks them otherwise.
func freePort() (*port, error) {
	const lowest, highest, tries = 22000, 32000, 100
	var failed error
	for range tries {
		p := &port{number: lowest + rand.IntN(highest-lowest)}
		if p.lock, failed = net.ListenPacket("udp", p.address()); failed != nil {
			continue
		}
		var listener net.Listener
		if listener, failed = net.Listen("tcp", p.address()); failed == nil {
			return p, listener.Close()
		}
		p.lock.Close()
	}
	return nil, failed
}

func (p *port) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }
