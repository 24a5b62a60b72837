package redistest

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// freePort returns a TCP port of loopback that is not in use. It lies below
// the ports that Linux gives to outgoing connections: a server that is down
// for a while finds its port free when it restarts.
func freePort() (int, error) {
	const lowest, highest, tries = 10000, 32000, 100
	var failed error
	for range tries {
		port := lowest + rand.IntN(highest-lowest)
		listener, err := net.Listen("tcp", loopback(port))
		if err != nil {
			failed = err
			continue
		}
		return port, listener.Close()
	}
	return 0, failed
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
