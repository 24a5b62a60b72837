package redisstore

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestDialerRations: many calls that need a connection to an address that
// refuses it make few connections. The dialer connects again when it can.
func TestDialerRations(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	var tries, made atomic.Int64
	connect := &net.Dialer{Control: func(string, string, syscall.RawConn) error {
		tries.Add(1)
		return nil
	}}
	inspect := func(context.Context, string) error { return nil }
	d := &dialer{network: "tcp", inspect: inspect, sentinels: new(net.Resolver), pauses: map[string]*pause{}}
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for began := time.Now(); time.Since(began) < time.Second; time.Sleep(time.Millisecond) {
				if _, err := d.dial(t.Context(), address, connect, nil); err == nil {
					t.Error("connected to a closed port")
				}
			}
		})
	}
	calls.Wait()
	// The pauses are 50, 100, 200, 400 and 800 ms at least half the time, and
	// each may end for all callers at once.
	t.Logf("%d connections in a second", tries.Load())
	if got := tries.Load(); got < 2 || got > 8*8 {
		t.Errorf("tried to connect %d times in a second", got)
	}

	if listener, err = net.Listen("tcp", address); err != nil {
		t.Skipf("another process has the port: %v", err)
	}
	defer listener.Close()
	for deadline := time.Now().Add(30 * time.Second); made.Load() == 0; time.Sleep(time.Millisecond) {
		if conn, err := d.dial(t.Context(), address, connect, nil); err == nil {
			made.Add(1)
			conn.Close()
		}
		if time.Now().After(deadline) {
			t.Fatal("the dialer does not connect again")
		}
	}
}
