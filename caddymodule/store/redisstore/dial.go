package redisstore

import (
	"context"
	"crypto/tls"
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

// dialer rations connections: calls that fail must not dial as fast as they
// come.
type dialer struct {
	network string
	// dialed is called after each connection.
	dialed func(address string)

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
func (d *dialer) dial(ctx context.Context, address string, net *net.Dialer, config *tls.Config) (net.Conn, error) {
	if err := d.refused(address); err != nil {
		return nil, err
	}
	conn, err := d.connect(ctx, address, net, config)
	d.done(address, err)
	if err == nil {
		d.dialed(address)
	}
	return conn, err
}

func (d *dialer) connect(ctx context.Context, address string, net *net.Dialer, config *tls.Config) (net.Conn, error) {
	if config != nil {
		over := tls.Dialer{NetDialer: net, Config: config}
		return over.DialContext(ctx, d.network, address)
	}
	return net.DialContext(ctx, d.network, address)
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
