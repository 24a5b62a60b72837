// Package posttest has what tests of programs that post need: a receiver in memory,
// and counts of outcomes.
package posttest

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Pipes is a listener in memory, because time does not pass in a test of synctest
// while a goroutine waits for the network.
type Pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Listen returns a listener.
func Listen() Pipes { return Pipes{make(chan net.Conn), make(chan struct{})} }

// Accept implements net.Listener.
func (p Pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p Pipes) Close() error { close(p.closed); return nil }

// Addr implements net.Listener.
func (Pipes) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

// Dial connects to the listener, whatever the address is.
func (p Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Counts are how often outcomes were counted. It is safe for concurrent use.
type Counts struct {
	mu sync.Mutex
	of map[string]int
}

// Add counts an outcome n times.
func (c *Counts) Add(outcome string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[outcome] += n
}

// String returns all of them.
func (c *Counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.of)
}

// Get returns how often an outcome was counted.
func (c *Counts) Get(outcome string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[outcome]
}
