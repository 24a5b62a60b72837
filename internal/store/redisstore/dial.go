package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// After a failed connection to an address, the next one is tried after
// firstPause, and then after twice as long each time, up to lastPause. All have
// some jitter, so that gates do not connect at the same time.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// errNotConnected says that a request was not sent.
var errNotConnected = errors.New("connecting to the server")

// dialer limits how often the store connects: each call would try it while the
// server is away.
type dialer struct {
	network string
	// inspect checks a server before a connection to it is used.
	inspect func(ctx context.Context, address string) error
	// sentinels is the resolver in connections to sentinels, which are not
	// inspected. rueidis has no other mark for them.
	sentinels *net.Resolver

	mu     sync.Mutex
	pauses map[string]*pause
}

// pause is the time after a failed connection to an address.
type pause struct {
	until  time.Time
	length time.Duration
	err    error
}

// dial implements rueidis.ClientOption.DialCtxFn.
func (d *dialer) dial(ctx context.Context, address string, by *net.Dialer, config *tls.Config) (net.Conn, error) {
	if err := d.refused(address); err != nil {
		return nil, err
	}
	var conn net.Conn
	var err error
	if by.Resolver != d.sentinels {
		err = d.inspect(ctx, address)
	}
	if err == nil {
		conn, err = d.connect(ctx, address, by, config)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errNotConnected, err)
	}
	d.done(address, err)
	return conn, err
}

func (d *dialer) connect(ctx context.Context, address string, by *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config != nil {
		over := tls.Dialer{NetDialer: by, Config: config}
		return over.DialContext(ctx, d.network, address)
	}
	return by.DialContext(ctx, d.network, address)
}

// refused returns the error of the last connection during its pause.
func (d *dialer) refused(address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.pauses[address]; p != nil && time.Now().Before(p.until) {
		return fmt.Errorf("waiting after a failed connection: %w", p.err)
	}
	return nil
}

// done begins a pause after an error, and ends it after a success.
func (d *dialer) done(address string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pauses[address]
	switch {
	case err == nil:
		delete(d.pauses, address)
		return
	case p == nil:
		p = &pause{length: firstPause / 2}
		d.pauses[address] = p
	}
	p.length = min(2*p.length, lastPause)
	p.err, p.until = err, time.Now().Add(p.length/2+rand.N(p.length))
}
