package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// blockCalls is the number of calls in a block.
const blockCalls = 200

// caller makes calls over one connection, one at a time.
type caller struct {
	net.Conn
	reader   *bufio.Reader
	requests [][]byte
	last     int
}

// connect returns a caller that sends the tokens in turn.
func connect(ctx context.Context, address string, tokens []string) (*caller, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &caller{Conn: conn, reader: bufio.NewReader(conn)}
	for _, t := range tokens {
		c.requests = append(c.requests, fmt.Appendf(nil,
			"GET %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nAuthorization: Bearer %s\r\n\r\n", callPath, address, t))
	}
	return c, nil
}

// block makes the calls of a block and returns their durations in
// nanoseconds.
func (c *caller) block(ctx context.Context) (values, error) {
	list := make(values, blockCalls)
	for i := range list {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		took, err := c.call()
		if err != nil {
			return nil, fmt.Errorf("calling: %w", err)
		}
		list[i] = float64(took)
	}
	return list, nil
}

func (c *caller) call() (time.Duration, error) {
	c.last = (c.last + 1) % len(c.requests)
	began := time.Now()
	if _, err := c.Write(c.requests[c.last]); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("got status %s, want 200", response.Status)
	}
	return took, nil
}
