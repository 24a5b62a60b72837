package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// ringScale is the size of the ring of a connection, as a power of two. It
	// is at least twice Options.InFlight, because a full ring ignores
	// contexts.
	ringScale = 13

	// bufferSize is the size of a connection's buffers, in bytes.
	bufferSize = 32 << 10

	// flushDelay is how long a connection collects requests before it writes
	// them, while more than one is waiting. It saves system calls of the gate
	// and of the server: a tenth of the requests per second of a busy gate.
	flushDelay = 100 * time.Microsecond

	// keepAlive is the time between two probes of a silent connection.
	keepAlive = 300 * time.Millisecond
)

// client sends requests to the server. It connects in the background, again
// after each failure, and refuses requests while there is no connection.
type client struct {
	options  Options
	location location
	dialer   *dialer
	clock    clock
	slots    chan struct{} // one for each request in flight
	changes  chan struct{} // one for each change that waits for replicas

	stop  context.CancelFunc
	ended chan struct{} // closed when the background ended
	wake  chan struct{} // tells the background to look at the link

	// Only the background uses these.
	works       bool // what the state was last
	knowsLayout bool // whether the layout was checked

	warned sync.Map // the warnings that were logged

	mu   sync.Mutex
	link *link
	down error // why there is no link
}

// link is a client of rueidis, which may have several connections.
type link struct {
	rueidis.Client
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
		options: o, location: l, clock: clock{began: time.Now()}, down: errConnecting,
		slots: make(chan struct{}, o.InFlight), changes: make(chan struct{}, maxChanges), ended: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	c.dialer = &dialer{network: l.network, inspect: c.inspect, sentinels: new(net.Resolver), pauses: map[string]*pause{}}
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
	o.MaxFlushDelay = flushDelay
	o.ConnWriteTimeout = c.silence()
	o.Dialer.Timeout, o.Dialer.KeepAlive = c.options.Timeout, keepAlive
	o.DialCtxFn = c.dialer.dial
	o.BlockingPoolSize, o.BlockingPoolCleanup = maxChanges, time.Minute
	o.ClusterOption.MaxMovedRedirections = 3
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.Dialer, o.Sentinel.TLSConfig = o.Dialer, o.TLSConfig
		o.Sentinel.Dialer.Resolver = c.dialer.sentinels
		o.Sentinel.TopologyRefreshInterval = time.Second
	}
	return o
}

// silence is how long a connection waits for replies before it is closed.
func (c *client) silence() time.Duration { return max(time.Second, 2*c.options.Timeout) }

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
}

// drop closes the link. The caller holds the lock.
func (c *client) drop(why error) {
	if c.link != nil {
		go c.link.Close() // it waits for calls in flight
	}
	c.link, c.down = nil, why
}

// use returns the link, or why there is none.
func (c *client) use() (*link, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.link == nil:
		return nil, unavailable(c.down)
	case c.link.refused != nil:
		return nil, unavailable(c.link.refused)
	}
	return c.link, nil
}

// do sends a request, again if the server says that it cannot run it right
// now, and returns the reply. send makes the request.
//
// The error is a store.ErrUnavailable. With errNoReply, the server may have run
// the request, otherwise it has not.
func (c *client) do(ctx context.Context, send func(*link) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	select {
	case c.slots <- struct{}{}:
	default:
		return rueidis.RedisMessage{}, unavailable(fmt.Errorf("%d requests are waiting", c.options.InFlight))
	}
	release := func() { <-c.slots }
	reply, err := c.try(ctx, send)
	if errors.Is(err, errNoReply) && errors.Is(err, context.DeadlineExceeded) {
		// The request keeps its place in the ring until the connection is
		// closed.
		time.AfterFunc(c.silence()+2*keepAlive, release)
	} else {
		release()
	}
	return reply, err
}

// try is do without the limit of Options.InFlight.
func (c *client) try(ctx context.Context, send func(*link) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	for pause := 2 * time.Millisecond; ; pause *= 2 {
		l, err := c.use()
		if err != nil {
			return rueidis.RedisMessage{}, err
		}
		reply, err := send(l).ToMessage()
		if err == nil || rueidis.IsRedisNil(err) {
			return reply, nil
		}
		if errors.Is(err, errNotConnected) {
			return reply, unavailable(c.hide(err))
		}
		reason, isReply := rueidis.IsRedisErr(err)
		if !isReply {
			return reply, unavailable(fmt.Errorf("%w: %w", errNoReply, c.hide(err)))
		}
		_, moved := reason.IsMoved()
		if moved || reason.IsTryAgain() || reason.IsClusterDown() || reason.IsLoading() || reason.IsNoScript() {
			if !sleep(ctx, pause) {
				return reply, unavailable(c.hide(err))
			}
			continue
		}
		if isReadOnly(err) {
			c.demoted(l)
		}
		return reply, unavailable(c.hide(err))
	}
}

// isReadOnly tells whether a server refused a write because it is a replica.
func isReadOnly(err error) bool {
	reason, isReply := rueidis.IsRedisErr(err)
	return isReply && strings.HasPrefix(reason.Error(), "READONLY")
}

// hide removes the passwords from an error: a server that does not know AUTH
// repeats its arguments, and cuts long ones.
func (c *client) hide(err error) error {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	for _, password := range []string{c.location.Password, c.location.Sentinel.Password} {
		if password != "" {
			text = strings.ReplaceAll(text, password, "***")
		}
	}
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

// doMulti sends commands at once, and returns their replies.
func (c *client) doMulti(ctx context.Context, n int, build func(b rueidis.Builder, i int) rueidis.Completed) ([]rueidis.RedisMessage, error) {
	replies, errs := c.multi(ctx, n, func(b rueidis.Builder, i int, _ bool) rueidis.Completed { return build(b, i) })
	return replies, cmp.Or(errs...) // the others often have the same cause
}

// runMulti runs a script for each call, with one round trip, and returns a reply
// or an error for each.
func (c *client) runMulti(ctx context.Context, s *script, calls []call) ([][]rueidis.RedisMessage, []error) {
	replies, errs := c.multi(ctx, len(calls), func(b rueidis.Builder, i int, unknown bool) rueidis.Completed {
		if unknown {
			return s.byText(b, calls[i].keys, calls[i].args)
		}
		return s.bySHA(b, calls[i].keys, calls[i].args)
	})
	lists := make([][]rueidis.RedisMessage, len(calls))
	for i, reply := range replies {
		if errs[i] == nil {
			lists[i], errs[i] = array(reply)
		}
	}
	return lists, errs
}

// multi sends n requests at once, and those again that the server cannot run
// right now. It returns a reply or an error for each. unknown tells whether a
// server did not know the script.
func (c *client) multi(
	ctx context.Context, n int, build func(b rueidis.Builder, i int, unknown bool) rueidis.Completed,
) ([]rueidis.RedisMessage, []error) {
	replies, errs := make([]rueidis.RedisMessage, n), make([]error, n)
	left := make([]int, n)
	for i := range left {
		left[i] = i
	}
	if n == 0 {
		return replies, errs
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	unknown := false
	_, err := c.do(ctx, func(l *link) (worst rueidis.RedisResult) {
		commands := make([]rueidis.Completed, len(left))
		for n, i := range left {
			commands[n] = build(l.B(), i, unknown)
		}
		var failed []int
		for n, result := range l.DoMulti(ctx, commands...) {
			reply, err := result.ToMessage()
			if err == nil || rueidis.IsRedisNil(err) {
				replies[left[n]] = reply
				continue
			}
			// Without a reply, none is sent again.
			if _, isReply := rueidis.IsRedisErr(err); len(failed) == 0 || !isReply {
				worst = result
			}
			unknown = unknown || isUnknown(result)
			failed = append(failed, left[n])
		}
		left = failed
		return worst
	})
	if err != nil {
		for _, i := range left {
			errs[i] = err
		}
	}
	return replies, errs
}

// demoted marks a link to a server that became a replica. rueidis would keep
// its connections.
func (c *client) demoted(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.broken = true
	c.wakeUp()
}

// runWithin runs a script.
func (c *client) runWithin(ctx context.Context, s *script, keys, args []string) ([]rueidis.RedisMessage, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	return c.run(ctx, s, keys, args)
}

// run runs a script within the deadline of ctx.
func (c *client) run(ctx context.Context, s *script, keys, args []string) ([]rueidis.RedisMessage, error) {
	reply, err := c.do(ctx, func(l *link) rueidis.RedisResult { return s.exec(ctx, l, keys, args) })
	if err != nil {
		return nil, err
	}
	return array(reply)
}

func array(reply rueidis.RedisMessage) ([]rueidis.RedisMessage, error) {
	list, err := reply.ToArray()
	if err != nil {
		return nil, unavailable(err)
	}
	return list, nil
}

// one sends a command.
func (c *client) one(ctx context.Context, command func(rueidis.Builder) rueidis.Completed) (rueidis.RedisMessage, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	return c.do(ctx, func(l *link) rueidis.RedisResult { return l.Do(ctx, command(l.B())) })
}

// ask sends a command, and reads its reply. what names what it asks for.
func ask[T any](
	ctx context.Context, c *client, what string, command func(rueidis.Builder) rueidis.Completed, read func(*rueidis.RedisMessage) (T, error),
) (value T, err error) {
	reply, err := c.one(ctx, command)
	if err != nil {
		return value, err
	}
	if value, err = read(&reply); err != nil {
		return value, damaged(what, err)
	}
	return value, nil
}

// within limits the time of a request.
func (c *client) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.options.Timeout)
}

// unavailable wraps an error as store.ErrUnavailable.
func unavailable(err error) error { return fmt.Errorf("%w: %w", store.ErrUnavailable, err) }

// sleep waits, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
