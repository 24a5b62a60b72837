package redistest

import (
	"errors"
	"net"
	"slices"
	"testing"
)

// TestPortTaken checks that a server gets another port when another process
// takes its port before it listens.
func TestPortTaken(t *testing.T) {
	t.Parallel()
	need(t)
	var ports []string
	server, err := launch(setup{dir: t.TempDir(), secret: newSecret(), scheme: "redis", lines: func(own *port) ([]string, error) {
		ports = append(ports, own.Address())
		if len(ports) < 3 {
			listener, err := net.Listen("tcp", own.Address())
			if err != nil {
				return nil, err
			}
			t.Cleanup(func() { listener.Close() })
		}
		return nil, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	end(t, server)
	if len(ports) != 3 || server.Addr() != ports[2] || slices.Contains(ports[:2], ports[2]) {
		t.Errorf("the server at %s tried the ports %v", server.Addr(), ports)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := server.Restart(); !errors.Is(err, errPortTaken) {
		t.Errorf("restarting on a port in use: %v", err)
	}
}
