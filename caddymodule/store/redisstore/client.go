package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const (
	// ringScale is the size of the ring of a connection, as a power of two.
	// A full ring ignores contexts, so it is larger than Options.InFlight.
	ringScale = 13

	// bufferSize is the size of a connection's buffers, in bytes.
	bufferSize = 32 << 10
)

// client sends requests to the server. It connects in the background, again
// after each failure, and refuses requests while there is no connection.
type client struct {
	options  Options
	location location
	dialer   *dialer
	clock    clock
	slots    chan struct{} // one for each request in flight

	stop  context.CancelFunc
	ended chan struct{} // closed when the background ended
	wake  chan struct{} // tells the background to look at the link

	works       bool // what the state was last; used by the background
	knowsLayout bool // whether the layout was checked; used by the background

	mu   sync.Mutex
	link *link
	down error // why there is no link
}

// link is a client of rueidis, which may have several connections.
type link struct {
	rueidis.Client
	// checked is closed when the servers were checked. Each new connection
	// may lead to another server, so it needs a new check.
	checked chan struct{}
	isFresh bool // checked is not closed
	// refused is why the servers are not used.
	refused error
	broken  bool // the server became a replica
}

var (
	errConnecting = errors.New("not connected yet")
	errNoReply    = errors.New("no reply from the server")
)

func newClient(o Options) (*client, error) {
	l, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if l.TLSConfig, err = o.tlsConfig(l); err != nil {
		return nil, err
	}
	c := &client{
		options: o, location: l, down: errConnecting,
		slots: make(chan struct{}, o.InFlight), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	c.dialer = &dialer{network: l.network, dialed: c.dialed, pauses: map[string]*pause{}}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.keep(ctx)
	return c, nil
}

// rueidisOptions returns the options of rueidis. None of its retries is used:
// a call must never count twice.
func (c *client) rueidisOptions() rueidis.ClientOption {
	o := c.location.ClientOption
	o.ClientName = "tollgate"
	o.DisableCache, o.DisableRetry = true, true
	// Otherwise the deadline of one call closes the connection of others.
	o.AlwaysPipelining = true
	o.PipelineMultiplex = -1
	o.RingScaleEachConn = ringScale
	for 1<<(o.RingScaleEachConn-1) < c.options.InFlight {
		o.RingScaleEachConn++
	}
	o.ReadBufferEachConn, o.WriteBufferEachConn = bufferSize, bufferSize
	o.ConnWriteTimeout = max(time.Second, 2*c.options.Timeout)
	o.Dialer.Timeout, o.Dialer.KeepAlive = c.options.Timeout, 300*time.Millisecond
	o.DialCtxFn = c.dialer.dial
	o.ClusterOption.MaxMovedRedirections = 3
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.Dialer, o.Sentinel.TLSConfig = o.Dialer, o.TLSConfig
		o.Sentinel.TopologyRefreshInterval = time.Second
	}
	return o
}

// dialed is called after each new connection.
func (c *client) dialed(address string) {
	if c.location.Sentinel.MasterSet != "" && slices.Contains(c.location.InitAddress, address) {
		return // of a sentinel, not of a server
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return // it is checked after it was made
	}
	if !c.link.isFresh {
		c.link.isFresh, c.link.checked = true, make(chan struct{})
	}
	c.wakeUp()
}

// wakeUp makes the background look at the link now.
func (c *client) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default: // it has not looked since the last time
	}
}

// close ends the background and the connections.
func (c *client) close() {
	c.stop()
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(store.ErrClosed)
	c.options.State(false)
}

// drop closes the link. The caller holds the lock.
func (c *client) drop(why error) {
	if c.link != nil {
		go c.link.Close() // it waits for calls in flight
	}
	c.link, c.down = nil, why
}

// use returns a link with checked servers, or waits for it.
func (c *client) use(ctx context.Context) (*link, error) {
	for {
		c.mu.Lock()
		l, down := c.link, c.down
		if l == nil {
			c.mu.Unlock()
			return nil, unavailable(down)
		}
		checked, fresh, refused := l.checked, l.isFresh, l.refused
		c.mu.Unlock()
		switch {
		case refused != nil:
			return nil, unavailable(refused)
		case !fresh:
			return l, nil
		}
		select {
		case <-checked:
		case <-ctx.Done():
			return nil, unavailable(ctx.Err())
		}
	}
}

// do sends a request, again if the server says that it cannot run it right
// now, and returns the reply. send makes the request.
//
// The error is a store.ErrUnavailable. With errNoReply, the server may have run
// the request, otherwise it has not.
func (c *client) do(ctx context.Context, send func(*link) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return rueidis.RedisMessage{}, unavailable(fmt.Errorf("%d requests are waiting", c.options.InFlight))
	}
	return c.try(ctx, c.use, send)
}

// linkFunc returns the link that a request uses.
type linkFunc func(context.Context) (*link, error)

// try is do for a request that is sent also while too many others wait.
func (c *client) try(ctx context.Context, use linkFunc, send func(*link) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	for pause := 2 * time.Millisecond; ; pause *= 2 {
		l, err := use(ctx)
		if err != nil {
			return rueidis.RedisMessage{}, err
		}
		reply, err := send(l).ToMessage()
		if err == nil || rueidis.IsRedisNil(err) {
			return reply, nil
		}
		reason, isReply := rueidis.IsRedisErr(err)
		if !isReply {
			return reply, unavailable(fmt.Errorf("%w: %w", errNoReply, err))
		}
		if reason.IsTryAgain() || reason.IsClusterDown() || reason.IsLoading() {
			if !sleep(ctx, pause) {
				return reply, unavailable(err)
			}
			continue
		}
		if strings.HasPrefix(reason.Error(), "READONLY") {
			c.demoted(l)
		}
		return reply, unavailable(err)
	}
}

// doMulti sends n reads at once, and returns their replies.
func (c *client) doMulti(ctx context.Context, n int, build func(l *link, i int) rueidis.Completed) ([]rueidis.RedisMessage, error) {
	replies := make([]rueidis.RedisMessage, n)
	_, err := c.do(ctx, func(l *link) rueidis.RedisResult {
		commands := make([]rueidis.Completed, n)
		for i := range commands {
			commands[i] = build(l, i)
		}
		var last rueidis.RedisResult
		for i, result := range l.DoMulti(ctx, commands...) {
			reply, err := result.ToMessage()
			if err != nil && !rueidis.IsRedisNil(err) {
				return result
			}
			replies[i], last = reply, result
		}
		return last
	})
	return replies, err
}

// demoted marks a link to a server that became a replica. rueidis would keep
// its connections.
func (c *client) demoted(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.broken = true
	c.wakeUp()
}

// run runs a script.
func (c *client) run(ctx context.Context, s *script, keys, args []string) ([]rueidis.RedisMessage, error) {
	reply, err := c.do(ctx, func(l *link) rueidis.RedisResult { return s.exec(ctx, l, keys, args) })
	if err != nil {
		return nil, err
	}
	list, err := reply.ToArray()
	if err != nil {
		return nil, unavailable(err)
	}
	return list, nil
}

// write sends a request that must be on Options.WaitReplicas replicas before it
// is confirmed.
func (c *client) write(ctx context.Context, send func(rueidis.CoreClient) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	if c.options.WaitReplicas == 0 {
		return c.do(ctx, func(l *link) rueidis.RedisResult { return send(l) })
	}
	return c.do(ctx, func(l *link) (result rueidis.RedisResult) {
		// WAIT holds up the other requests of its connection.
		own, release := l.Dedicate()
		defer release()
		if result = send(own); result.Error() != nil {
			return result
		}
		wait := own.B().Wait().Numreplicas(int64(c.options.WaitReplicas)).Timeout(c.options.Timeout.Milliseconds()).Build()
		n, err := own.Do(ctx, wait).AsInt64()
		if err == nil && n < int64(c.options.WaitReplicas) {
			err = fmt.Errorf("%d of %d replicas have the change", n, c.options.WaitReplicas)
		}
		if err != nil {
			// The change is made, so the error must not look like a reply.
			return rueidis.NewErrorResult(fmt.Errorf("waiting for replicas: %v", err)) //nolint:errorlint // see above
		}
		return result
	})
}

// within limits the time of a request.
func (c *client) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.options.Timeout)
}

// unavailable wraps an error as store.ErrUnavailable.
func unavailable(err error) error { return fmt.Errorf("%w: %w", store.ErrUnavailable, err) }

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
