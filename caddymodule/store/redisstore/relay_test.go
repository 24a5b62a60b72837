package redisstore_test

import (
	"net"
	"sync"
	"testing"
	"time"
)

// relay is an address that leads to one server, and later to another, as a name
// or a load balancer does. It delays what clients send.
type relay struct {
	listener net.Listener
	delay    time.Duration
	running  sync.WaitGroup

	mu     sync.Mutex
	target string
	conns  map[net.Conn]struct{}
}

func startRelay(t testing.TB, target string, delay time.Duration) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	r := &relay{listener: listener, delay: delay, target: target, conns: map[net.Conn]struct{}{}}
	r.running.Go(r.accept)
	t.Cleanup(func() {
		listener.Close()
		r.cut()
		r.running.Wait()
	})
	return r
}

func (r *relay) url() string { return "redis://" + r.listener.Addr().String() }

// lead lets new connections lead to another server. The others stay.
func (r *relay) lead(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for conn := range r.conns {
		conn.Close()
	}
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.running.Go(func() { r.serve(client) })
	}
}

func (r *relay) serve(client net.Conn) {
	defer r.end(client)
	r.mu.Lock()
	target := r.target
	r.conns[client] = struct{}{}
	r.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return // the client sees the end of its connection
	}
	r.running.Go(func() {
		forward(server, client, 0)
		r.end(client)
	})
	defer server.Close()
	forward(client, server, r.delay)
}

func (r *relay) end(client net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	client.Close()
	delete(r.conns, client)
}

// forward copies one direction until one side closes.
func forward(from, to net.Conn, delay time.Duration) {
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			time.Sleep(delay)
			if _, failed := to.Write(chunk[:n]); failed != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
