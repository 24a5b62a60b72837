package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// origin is the upstream: it gives every request the same answer, of the
// size of a real one, and does no work for it, not even that of reading
// the headers. What an upstream does with a request is not the matter
// here, and it shares the processors with what is.
type origin struct {
	address  string
	listener net.Listener

	mu    sync.Mutex
	conns map[net.Conn]struct{} // nil when stopped
	done  sync.WaitGroup
}

const originBody = `{"from":"EUR","to":"USD","amount":10,"rate":1.15234,"result":11.5234,"rounded":11.52,"date":"2026-01-02","source":"ecb"}`

var originAnswer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nDate: Fri, 02 Jan 2026 16:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s",
	len(originBody), originBody)

func startOrigin(ctx context.Context) (*origin, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	o := &origin{address: listener.Addr().String(), listener: listener, conns: map[net.Conn]struct{}{}}
	o.done.Go(o.accept)
	return o, nil
}

func (o *origin) accept() {
	for {
		conn, err := o.listener.Accept()
		if err != nil {
			return // it was stopped
		}
		if !o.keep(conn) {
			conn.Close()
			return
		}
		o.done.Go(func() {
			defer o.drop(conn)
			answer(conn)
		})
	}
}

// answer answers requests without a body until the connection ends.
func answer(conn io.ReadWriter) {
	in, out := bufio.NewReader(conn), []byte(originAnswer)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		if len(bytes.TrimRight(line, "\r\n")) > 0 {
			continue
		}
		if _, err := conn.Write(out); err != nil {
			return
		}
	}
}

func (o *origin) keep(conn net.Conn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns != nil {
		o.conns[conn] = struct{}{}
	}
	return o.conns != nil
}

func (o *origin) drop(conn net.Conn) {
	conn.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
}

// stop closes the listener and all connections.
func (o *origin) stop() error {
	err := o.listener.Close()
	o.mu.Lock()
	for conn := range o.conns {
		err = errors.Join(err, conn.Close())
	}
	o.conns = nil
	o.mu.Unlock()
	o.done.Wait()
	return err
}
