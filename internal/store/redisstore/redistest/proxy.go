package redistest

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy forwards TCP connections to a server and breaks them as a network
// does. Its methods are safe for concurrent use.
type Proxy struct {
	address string
	lock    *port
	running sync.WaitGroup

	mu       sync.Mutex
	target   string
	delay    time.Duration
	edit     func(reply []byte)
	listener net.Listener  // nil while connections are refused
	mode     mode          // of all connections
	changed  chan struct{} // closed at the next change of mode
	every    int           // of CutReplies
	replies  int           // chunks since CutReplies
	writing  int           // chunks that are being forwarded
	dials    int
	links    map[*link]struct{}
	err      error // why it stopped to accept
}

type mode int

const (
	forwarding mode = iota
	stalling
	eating
	cutting
)

// link is a connection of a client and the one to the server behind it.
type link struct {
	client net.Conn
	server net.Conn // nil before it is dialled
	ended  chan struct{}
	ate    bool // a reply is missing
}

// StartProxy starts a proxy to the host and port of a server for a test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	const tries = 10
	var failed error
	for range tries {
		own, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		p := &Proxy{target: target, address: own.Address(), lock: own, changed: make(chan struct{}), links: map[*link]struct{}{}}
		if failed = p.Resume(); failed == nil {
			t.Cleanup(func() {
				if err := p.close(); err != nil {
					t.Error(err)
				}
			})
			return p
		}
	}
	t.Fatal(failed)
	return nil
}

// Addr returns the host and port that clients dial.
func (p *Proxy) Addr() string { return p.address }

// Dials returns the number of accepted connections.
func (p *Proxy) Dials() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dials
}

// Stall forwards nothing more in either direction and closes nothing, also
// when one side closes. New connections are accepted and stall too.
func (p *Proxy) Stall() { p.set(stalling, 0) }

// EatReplies forwards requests and drops replies.
func (p *Proxy) EatReplies() { p.set(eating, 0) }

// CutReplies closes the connection instead of forwarding a reply, for each
// n-th chunk that the server sends. The server has executed the request.
func (p *Proxy) CutReplies(n int) { p.set(cutting, max(1, n)) }

// Cut closes all connections. New ones are possible.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.drop(l)
	}
}

// Refuse closes the listener: new connections are refused. Existing ones go
// on until Cut.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		p.listener.Close()
		p.listener = nil
	}
}

// Resume ends all faults, and forwards what Stall kept. It closes each
// connection that lost a reply to EatReplies: the client would read the next
// reply as the lost one.
func (p *Proxy) Resume() error {
	p.set(forwarding, 0)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", p.address)
	if err != nil {
		return fmt.Errorf("listening again: %w", err)
	}
	p.listener = listener
	p.running.Go(func() { p.accept(listener) })
	return nil
}

// Lead lets new connections lead to another server, as a name or a load balancer
// does. The others stay.
func (p *Proxy) Lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// Delay delays each request.
func (p *Proxy) Delay(delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

// Edit changes each chunk of replies.
func (p *Proxy) Edit(edit func(reply []byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.edit = edit
}

// close ends the proxy and its connections.
func (p *Proxy) close() error {
	p.Refuse()
	p.Cut()
	p.running.Wait()
	return p.err
}

// set changes the mode. When it returns, nothing is forwarded in the old mode
// any more, unless a side does not read what is written to it.
func (p *Proxy) set(mode mode, every int) {
	p.mu.Lock()
	p.mode, p.every, p.replies = mode, every, 0
	close(p.changed)
	p.changed = make(chan struct{})
	for l := range p.links {
		if l.ate && (mode == forwarding || mode == cutting) {
			p.drop(l)
		}
	}
	p.mu.Unlock()
	for deadline := time.Now().Add(time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		p.mu.Lock()
		writing := p.writing
		p.mu.Unlock()
		if writing == 0 {
			return
		}
	}
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		p.mu.Lock()
		if err != nil || p.listener != listener {
			if err == nil {
				client.Close()
			} else if !errors.Is(err, net.ErrClosed) {
				p.err = fmt.Errorf("accepting connections: %w", err)
			}
			p.mu.Unlock()
			return
		}
		p.dials++
		l := &link{client: client, ended: make(chan struct{})}
		p.links[l] = struct{}{}
		p.running.Go(func() { p.serve(l) })
		p.mu.Unlock()
	}
}

// serve forwards a connection in both directions until one side ends it.
func (p *Proxy) serve(l *link) {
	defer p.end(l)
	if !p.unstalled(l) {
		return
	}
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return // the client sees the end of its connection
	}
	p.mu.Lock()
	l.server = server
	_, open := p.links[l]
	p.mu.Unlock()
	if !open {
		server.Close()
		return
	}
	p.running.Go(func() { p.forward(l, server, l.client, true) })
	p.forward(l, l.client, server, false)
}

// forward copies one direction. When it ends, the connection ends.
func (p *Proxy) forward(l *link, from, to net.Conn, replies bool) {
	defer p.end(l)
	chunk := make([]byte, 64<<10)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			switch p.pass(l, replies) {
			case cutting, stalling:
				return
			case forwarding:
				if !p.write(to, chunk[:n], replies) {
					return
				}
			}
		}
		if err != nil {
			// A stalled network loses the end of a connection too.
			p.unstalled(l)
			return
		}
	}
}

// pass waits while the proxy stalls, and decides about a chunk: forward it, eat
// it, or cut the connection. It returns stalling if the
// connection ended while it waited. After forwarding the caller must call
// write.
func (p *Proxy) pass(l *link, reply bool) mode {
	for p.unstalled(l) {
		p.mu.Lock()
		does := p.decide(l, reply)
		p.mu.Unlock()
		if does != stalling {
			return does
		}
	}
	return stalling
}

// decide tells what becomes of a chunk now. The caller has the lock.
func (p *Proxy) decide(l *link, reply bool) mode {
	switch {
	case p.mode == stalling:
		return stalling
	case reply && p.mode == eating:
		l.ate = true
		return eating
	case reply && p.mode == cutting:
		if p.replies++; p.replies%p.every == 0 {
			return cutting
		}
	}
	p.writing++
	return forwarding
}

func (p *Proxy) write(to net.Conn, chunk []byte, reply bool) bool {
	p.mu.Lock()
	delay, edit := p.delay, p.edit
	p.mu.Unlock()
	switch {
	case reply && edit != nil:
		edit(chunk)
	case !reply && delay > 0:
		time.Sleep(delay)
	}
	_, err := to.Write(chunk)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writing--
	return err == nil
}

// unstalled waits while the proxy stalls. It returns false if the connection
// ended before that.
func (p *Proxy) unstalled(l *link) bool {
	for {
		p.mu.Lock()
		stalls, changed := p.mode == stalling, p.changed
		p.mu.Unlock()
		if !stalls {
			return true
		}
		select {
		case <-changed:
		case <-l.ended:
			return false
		}
	}
}

func (p *Proxy) end(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(l)
}

// drop closes both sides of a link. The caller has the lock.
func (p *Proxy) drop(l *link) {
	if _, open := p.links[l]; !open {
		return
	}
	delete(p.links, l)
	close(l.ended)
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
}
