package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// A round of the latency is a number of blocks on each side, and a block is
// a number of calls. Blocks are short, so that the speed of the machine is
// the same for all sides.
const (
	blocks     = 10
	blockCalls = 200
)

// assertionLength is the length of an assertion of this call, in bytes.
const assertionLength = 401

// gateHeaders are options of the proxy that change the headers as the gate
// does. Caddy looks for placeholders in them and the gate does not, so they
// cost a little more.
var gateHeaders = `
		header_up -Authorization
		header_up Tollgate-Account ample_42
		header_up Tollgate-Plan ample
		header_up Tollgate-Key key_0123456789ABCDEF
		header_up Tollgate-Abilities convert
		header_up Tollgate-Assertion ` + strings.Repeat("0", assertionLength) + `
		header_down Ratelimit-Policy "\"convert\";q=1000000000000;w=86400"
		header_down Ratelimit "\"convert\";r=999999999999;t=43200"
		header_down Cache-Control no-store
		header_down Vary Authorization`

// measureLatency makes one call at a time. It compares the median of a
// block on one side with the medians of the blocks next to it in time on
// the other sides. The result of a round is the median of the differences.
// The gate is compared with a proxy that sets the same headers: headers
// have a cost without a gate, too. The rest is the cost of deciding and
// counting.
func measureLatency(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	first, second, err := b.startProxies(ctx, proxyTo(upstream), http.StatusOK)
	if err != nil {
		return nil, err
	}
	g, err := b.startGate(ctx, "sync off", proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	withHeaders, err := b.startCaddy(ctx, caddyConfig{site: proxyTo(upstream, gateHeaders)}, answers{status: http.StatusOK})
	if err != nil {
		return nil, err
	}
	var callers [4]*caller
	for i, c := range []*server{first, second, g.server, withHeaders} {
		if callers[i], err = connect(ctx, c.address, requestsOf(c.address, g.ample)); err != nil {
			return nil, err
		}
		defer callers[i].Close()
		if _, err := callers[i].block(ctx); err != nil { // warming up
			return nil, err
		}
	}
	var overHeaders, overProxy, headers, noise, proxy, proxy2, writes values
	for range b.rounds {
		write, err := b.writeTime()
		if err != nil {
			return nil, err
		}
		medians, err := callInTurn(ctx, callers)
		if err != nil {
			return nil, err
		}
		first, second, gate, withHeaders := medians[0], medians[1], medians[2], medians[3]
		overHeaders = append(overHeaders, differences(gate, withHeaders).median())
		overProxy = append(overProxy, differences(gate, first).median())
		headers = append(headers, differences(withHeaders, first).median())
		noise = append(noise, differences(second, first).median())
		proxy, proxy2, writes = append(proxy, first.median()), append(proxy2, second.median()), append(writes, write)
	}
	in, limit := inP(proxy), 0.08+2*ratios(writes, proxy).median()
	return []row{
		{what: "one connection: added median latency, beside the same headers, ≤ 0.08 P + 2 W", target: atMost(limit), unit: asMicros, in: in, measured: overHeaders, noise: noise},
		{what: "  beside the proxy alone", unit: asMicros, in: in, measured: overProxy, noise: noise},
		{what: "  the same headers beside the proxy alone", unit: asMicros, in: in, measured: headers, noise: noise},
		{what: "  median of the proxy alone (P)", unit: asMicros, measured: proxy, noise: proxy2, expected: proxy.median()},
		{what: "  one write of 64 bytes (W)", unit: asMicros, in: in, measured: writes},
	}, nil
}

// callInTurn returns the medians of the blocks of one round.
func callInTurn(ctx context.Context, callers [4]*caller) (medians [4]values, err error) {
	for n := range blocks {
		for i := range callers {
			at := (i + n) % len(callers)
			took, err := callers[at].block(ctx)
			if err != nil {
				return medians, err
			}
			medians[at] = append(medians[at], took.median())
		}
	}
	return medians, nil
}

// caller makes calls over one connection, one at a time.
type caller struct {
	net.Conn
	reader   *bufio.Reader
	requests [][]byte
	last     int
}

// connect returns a caller that makes these requests in turn.
func connect(ctx context.Context, address string, requests [][]byte) (*caller, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &caller{Conn: conn, reader: bufio.NewReader(conn), requests: requests}, nil
}

// requestsOf returns a request for each token.
func requestsOf(address string, tokens []string) (requests [][]byte) {
	for _, t := range tokens {
		requests = append(requests, fmt.Appendf(nil,
			"GET %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nAuthorization: Bearer %s\r\n\r\n", callPath, address, t))
	}
	return requests
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

// callTogether loads an address as wrk does. Each caller has a connection of
// its own.
func callTogether(ctx context.Context, address string, tokens []string, duration time.Duration) (load, error) {
	var callers [connections]*caller
	requests := requestsOf(address, tokens)
	for i := range callers {
		c, err := connect(ctx, address, requests)
		if err != nil {
			return load{}, err
		}
		defer c.Close()
		c.last = i * len(requests) / connections
		callers[i] = c
	}
	var took [connections]values
	var failures [connections]error
	var group sync.WaitGroup
	began := time.Now()
	for i, c := range callers {
		group.Go(func() {
			for failures[i] == nil && ctx.Err() == nil && time.Since(began) < duration {
				var one time.Duration
				one, failures[i] = c.call()
				took[i] = append(took[i], float64(one.Microseconds()))
			}
		})
	}
	group.Wait()
	all := slices.Concat(took[:]...)
	l := load{Requests: int64(len(all)), Duration: time.Since(began).Microseconds(), P50: int64(all.at(0.5)), P99: int64(all.at(0.99)), Longest: int64(all.at(1))}
	return l, errors.Join(ctx.Err(), errors.Join(failures[:]...))
}
