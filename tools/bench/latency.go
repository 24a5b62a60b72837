package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// One round of the latency: so many blocks on each side, of so many
// calls. A block is short enough that all sides meet the machine in the
// same mood.
const (
	blocks     = 10
	blockCalls = 200
)

// assertionLength is how long an assertion of this call is, in bytes.
const assertionLength = 398

// labels sets the headers of a gated call, and takes away the one that the
// gate takes away, without a gate: options of the proxy, which Caddy works
// through at once. It looks for placeholders in them, which the gate does
// not, so they cost a little more.
var labels = `
		header_up -Authorization
		header_up Tollgate-Account open_42
		header_up Tollgate-Plan open
		header_up Tollgate-Key key_0123456789ABCDEF
		header_up Tollgate-Abilities convert
		header_up Tollgate-Assertion ` + strings.Repeat("0", assertionLength) + `
		header_down Ratelimit-Policy "\"convert\";q=1000000000000;w=86400"
		header_down Ratelimit "\"convert\";r=999999999999;t=43200"
		header_down Cache-Control no-store
		header_down Vary Authorization`

// measureLatency makes one call at a time. It compares the median of a
// block of calls on one side with those of the blocks on the others that
// stand next to it in time; a round is the median of these differences.
// Headers cost what they cost, whoever sets them: what the difference is
// without them is about what deciding and counting takes.
func measureLatency(ctx context.Context, s *settings) (rows []row, err error) {
	f, err := startFleet(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	labelled, err := startCaddy(ctx, s, caddyConfig{name: "labelled", site: proxyTo(f.origin.address, labels)})
	if err != nil {
		return nil, fmt.Errorf("starting a proxy: %w", err)
	}
	defer func() { err = errors.Join(err, labelled.stop()) }()
	var callers [4]*caller
	for i, c := range []*caddy{f.bare, f.twin, f.gate.caddy, labelled} {
		if callers[i], err = connect(ctx, c.address, f.gate.open); err != nil {
			return nil, err
		}
		defer callers[i].Close()
		if _, err := callers[i].block(ctx); err != nil { // warming up
			return nil, err
		}
	}
	var added, headers, noise, alone, again samples
	for range s.rounds {
		medians, err := callInTurn(ctx, callers)
		if err != nil {
			return nil, err
		}
		bare, twin, gate, labelled := medians[0], medians[1], medians[2], medians[3]
		added = append(added, differences(gate, bare).median())
		headers = append(headers, differences(labelled, bare).median())
		noise = append(noise, differences(twin, bare).median())
		alone, again = append(alone, bare.median()), append(again, twin.median())
	}
	return []row{
		{what: "one connection, added median latency", bar: atMost(15_000), unit: asMicros, measured: added, noise: noise},
		{what: "  by the same headers without a gate", unit: asMicros, measured: headers, noise: noise},
		{what: "  median of the proxy alone", unit: asMicros, measured: alone, noise: again, neutral: alone.median()},
	}, nil
}

// callInTurn returns the medians of the blocks of one round.
func callInTurn(ctx context.Context, callers [4]*caller) (medians [4]samples, err error) {
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

// caller makes one call after the other over one connection.
type caller struct {
	net.Conn
	reader   *bufio.Reader
	requests [][]byte // one for each token
	last     int
}

func connect(ctx context.Context, address string, tokens []string) (*caller, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &caller{Conn: conn, reader: bufio.NewReader(conn)}
	for _, t := range tokens {
		c.requests = append(c.requests, fmt.Appendf(nil,
			"GET %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nAuthorization: Bearer %s\r\n\r\n", target, address, t))
	}
	return c, nil
}

// block makes some calls and returns how long each took, in nanoseconds.
func (c *caller) block(ctx context.Context) (samples, error) {
	list := make(samples, blockCalls)
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
		return 0, fmt.Errorf("the answer is %s", response.Status)
	}
	return took, nil
}
