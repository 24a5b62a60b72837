// Package freeport chooses TCP ports of loopback for tests and measurements.
package freeport

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Port is a port that no other caller of New gets, also in another process,
// until Release.
type Port struct {
	Number int
	lock   *os.File
}

// New returns a port that is not in use. It lies below the ports that Linux
// gives to outgoing connections and for port 0: a program that restarts finds
// its port free, and nothing listens at the port of one that was stopped.
func New() (*Port, error) {
	const lowest, highest, tries = 10000, 32000, 1000
	folder := filepath.Join(os.TempDir(), "tollgate-ports")
	err := os.MkdirAll(folder, 0o700)
	for range tries {
		p := &Port{Number: lowest + rand.IntN(highest-lowest)}
		if p.lock, err = os.Create(filepath.Join(folder, strconv.Itoa(p.Number))); err != nil {
			break
		}
		if err = lock(p.lock); err == nil {
			var listener net.Listener
			if listener, err = net.Listen("tcp", p.Address()); err == nil {
				return p, listener.Close()
			}
		}
		p.lock.Close()
	}
	return nil, err
}

// Address returns the host and port.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Release lets others get the port.
func (p *Port) Release() error { return p.lock.Close() }
