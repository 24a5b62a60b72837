package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
)

const upstreamBody = `{"from":"EUR","to":"USD","amount":10,"rate":1.15234,"result":11.5234,"rounded":11.52,"date":"2026-01-02","source":"ecb"}`

var upstreamAnswer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\nDate: Fri, 02 Jan 2026 16:00:00 GMT\r\nContent-Length: %d\r\n\r\n%s",
	len(upstreamBody), upstreamBody)

// startUpstream starts a server and returns its address. The server gives
// every request the same answer, of a usual size. It shares the processors
// with the programs under test, so it does as little as possible: it does
// not even read the headers.
func (b *bench) startUpstream(ctx context.Context) (address string, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("starting the upstream: %w", err)
	}
	b.stops = append(b.stops, listener.Close)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the listener is closed
			}
			go func() {
				defer conn.Close()
				answer(conn)
			}()
		}
	}()
	return listener.Addr().String(), nil
}

// answer answers requests without a body until the client closes the
// connection.
func answer(conn io.ReadWriter) {
	in, out := bufio.NewReader(conn), []byte(upstreamAnswer)
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
