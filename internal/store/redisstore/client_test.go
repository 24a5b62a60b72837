package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// takeOne takes a call of an account without a grant.
func takeOne(t testing.TB, s *gate) error {
	_, err := s.Take(t.Context(), store.Call{Account: account, Endpoint: "convert", Day: today()}, daily(1<<40), make([]store.Room, 1))
	return err
}

// refuses waits until calls fail with a text.
func refuses(t testing.TB, s *gate, text string) {
	t.Helper()
	var err error
	await(t, "an error with "+text, func() bool {
		err = takeOne(t, s)
		return err != nil && strings.Contains(err.Error(), text)
	})
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrUnavailable)
	}
}

// works waits until calls are counted.
func works(t testing.TB, s *gate) {
	t.Helper()
	await(t, "calls to work", func() bool { return takeOne(t, s) == nil })
}

// TestNoDialStorm makes a thousand calls a second while all fail, and counts
// connections.
func TestNoDialStorm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		begin func(*redistest.Server, *redistest.Proxy) error
	}{
		// The proxy accepts a connection and closes it, as a load balancer
		// does.
		{"Killed", func(s *redistest.Server, _ *redistest.Proxy) error { return s.Kill() }},
		{"Stalled", func(_ *redistest.Server, p *redistest.Proxy) error { p.Stall(); return nil }},
		{"Silent", func(_ *redistest.Server, p *redistest.Proxy) error { p.EatReplies(); p.Cut(); return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.StartProxy(t, server.Addr())
			s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 200 * time.Millisecond})
			check(t, test.begin(server, proxy))
			before, began := proxy.Dials(), time.Now()
			const length = 1500 * time.Millisecond
			var calls sync.WaitGroup
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for time.Since(began) < length {
				<-tick.C
				calls.Go(func() { takeOne(t, s) })
			}
			calls.Wait()
			if dials := proxy.Dials() - before; dials > 50 {
				t.Errorf("%d connections in %v", dials, length)
			}
		})
	}
}

// TestStalledCallsEnd: calls to a network that delivers nothing fail after the
// timeout, also if as many wait as may.
func TestStalledCallsEnd(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 5 * time.Second})
	proxy.Stall()
	var calls sync.WaitGroup
	for range redisstore.DefaultInFlight + 500 {
		calls.Go(func() {
			// A call that a full queue held up would end with its connection.
			err := takeOne(t, s)
			if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "requests are waiting") {
				t.Errorf("got %v, want the end of the timeout", err)
			}
		})
	}
	calls.Wait()
	check(t, proxy.Resume())
	works(t, s)
}

// TestDeadlineOfOneCall: a call whose client has gone does not end the
// connection that other calls use.
func TestDeadlineOfOneCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr()})
	dials := proxy.Dials()
	check(t, server.Pause())
	patient := make(chan error, 10)
	for range cap(patient) {
		go func() { patient <- takeOne(t, s) }()
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 10 {
		_, err := s.Take(short, store.Call{Account: account, Endpoint: "convert", Day: today()}, nil, nil)
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a call with a short deadline: got %v, want %v", err, store.ErrUnavailable)
		}
	}
	check(t, server.Resume())
	for range cap(patient) {
		check(t, <-patient)
	}
	if got := proxy.Dials(); got != dials {
		t.Errorf("%d new connections, want none", got-dials)
	}
}

// TestCloseWithoutServer: a store closes while its server does not answer. It
// says that it could not write recent calls.
func TestCloseWithoutServer(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 200 * time.Millisecond})
	proxy.Stall()
	s.Record(store.Record{Account: account, At: time.Now(), Endpoint: "convert"})
	if err := s.Close(); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Close: got %v, want %v", err, store.ErrUnavailable)
	}
	if err := takeOne(t, s); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a call after Close: got %v, want %v", err, store.ErrClosed)
	}
}

// TestAwayAtStart: a store whose server is away works when it comes.
func TestAwayAtStart(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	proxy.Refuse()
	var log journal
	s := openAny(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 10 * time.Second, Logger: log.logger()})
	await(t, "a line about the server", func() bool { return log.has("redis does not work") })
	if takeOne(t, s) == nil {
		t.Error("the store works without a server")
	}
	check(t, proxy.Resume())
	await(t, "a line about the server", func() bool { return log.has("redis works") })
	check(t, put(t, s, account))
	check(t, takeOne(t, s))
	if got := log.count("redis does not work"); got != 1 {
		t.Errorf("%d lines about the server, want 1", got)
	}
	// A call that could not be sent is not counted, and the error says so.
	proxy.Refuse()
	proxy.Cut()
	refuses(t, s, "connecting to the server")
}

// TestLayout: data of another layout is refused.
func TestLayout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	do(t, server, "SET", "tollgate:layout", "1")
	s := openAny(t, redisstore.Options{URL: server.URL()})
	refuses(t, s, `layout "1", this program knows layout "7"`)
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Check: %v, want %v", err, store.ErrUnavailable)
	}
	openStore(t, redisstore.Options{URL: server.URL(), Prefix: "other"})
	do(t, server, "DEL", "tollgate:layout")
	check(t, put(t, openStore(t, redisstore.Options{URL: server.URL()}), account))
	works(t, s)
}

// TestOldServer: a server of an older version is refused. The tests have none,
// so the proxy changes the version that the server tells.
func TestOldServer(t *testing.T) {
	t.Parallel()
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	proxy.Edit(func(reply []byte) {
		if at := bytes.Index(reply, []byte("redis_version:")); at >= 0 {
			reply[at+len("redis_version:")] = '6'
		}
	})
	refuses(t, openAny(t, redisstore.Options{URL: "redis://" + proxy.Addr()}), `version is "6.`)
}
