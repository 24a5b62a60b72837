package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// layout is the number of the layout of the data.
const layout = "1"

const (
	// beat is the time between two looks at a server that works.
	beat = time.Second

	// again is the time between two tries to connect.
	again = 100 * time.Millisecond
)

// errRefused says that a server must not be used.
var errRefused = errors.New("the server is not used")

// keep connects, checks new connections, and follows the state of the server.
func (c *client) keep(ctx context.Context) {
	defer close(c.ended)
	for first := true; ; first = false {
		err := c.maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		c.report(err, first)
		pause, wake := beat, c.wake
		if err != nil {
			// A connection that opens and fails must not lead to the next
			// one at once.
			wake = nil
			if !errors.Is(err, errRefused) {
				pause = again
			}
		}
		timer := time.NewTimer(pause)
		select {
		case <-wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// report tells a change of the state.
func (c *client) report(err error, first bool) {
	works := err == nil
	if works == c.works && !first {
		return
	}
	c.works = works
	c.options.State(works)
	if works {
		c.options.Logger.Info("redis works", slog.String("store", c.options.Name()))
		return
	}
	c.options.Logger.Error("redis does not work", slog.String("store", c.options.Name()), slog.Any("error", err))
}

// maintain makes a link if there is none, checks the servers if a connection is
// new, and tries what a call needs.
func (c *client) maintain(ctx context.Context) error {
	l, err := c.linked()
	if err != nil {
		return err
	}
	if err := c.checkNew(ctx, l); err != nil {
		return err
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	// Not c.use: it waits for the check of a new connection, which only the
	// background makes.
	return c.ping(ctx, func(context.Context) (*link, error) { return l, nil })
}

// linked returns the link, or a new one.
func (c *client) linked() (*link, error) {
	c.mu.Lock()
	l := c.link
	if l != nil && l.broken {
		c.drop(errConnecting)
		l = nil
	}
	c.mu.Unlock()
	if l != nil {
		return l, nil
	}
	made, err := rueidis.NewClient(c.rueidisOptions())
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.down = err
		return nil, err
	}
	c.link = &link{Client: made, isFresh: true, checked: make(chan struct{})}
	return c.link, nil
}

// checkNew checks the servers if a connection is new or they were refused.
func (c *client) checkNew(ctx context.Context, l *link) error {
	c.mu.Lock()
	checked, due := l.checked, l.isFresh || l.refused != nil
	c.mu.Unlock()
	if !due {
		return nil
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	err := c.checkServers(ctx, l)
	if err != nil && !errors.Is(err, errRefused) {
		return err // not checked: calls go on waiting
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.refused = err
	if l.isFresh && l.checked == checked { // otherwise there is another new connection
		l.isFresh = false
		close(checked)
	}
	return err
}

// checkServers checks all servers that answer, and the layout of the data.
func (c *client) checkServers(ctx context.Context, l *link) error {
	nodes := map[string]rueidis.Client{"": l}
	if c.location.cluster {
		nodes = l.Nodes()
	}
	var failed error
	answered := 0
	for _, node := range nodes {
		switch err := c.checkServer(ctx, node); {
		case errors.Is(err, errRefused):
			return err
		case err != nil:
			failed = err
		default:
			answered++
		}
	}
	if answered == 0 {
		return failed
	}
	err := c.checkLayout(ctx, l)
	if err == nil {
		c.knowsLayout = true
	}
	// The server of a cluster that has the layout may be down. The others go
	// on: the data of a cluster does not change with a connection.
	if err != nil && !errors.Is(err, errRefused) && c.location.cluster && c.knowsLayout {
		return nil
	}
	return err
}

// checkServer checks the version of a server, and that it deletes no keys.
func (c *client) checkServer(ctx context.Context, node rueidis.Client) error {
	info, err := node.Do(ctx, node.B().Info().Section("server", "memory").Build()).ToString()
	if reason, isReply := rueidis.IsRedisErr(err); isReply && strings.HasPrefix(reason.Error(), "NOPERM") {
		c.options.Logger.Warn("the user may not run INFO, so the version and maxmemory-policy of the server are not checked", slog.String("store", c.options.Name()))
		return nil
	}
	if err != nil {
		return err
	}
	version, policy := field(info, "redis_version"), field(info, "maxmemory_policy")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 7 {
		return fmt.Errorf("%w: its version is %q, at least 7.0 is required", errRefused, version)
	}
	switch {
	case c.options.AllowEviction || policy == "noeviction":
		return nil
	case policy == "":
		c.options.Logger.Warn("the server does not tell its maxmemory-policy; set it to noeviction", slog.String("store", c.options.Name()))
		return nil
	}
	return fmt.Errorf("%w: its maxmemory-policy %q deletes counts when its memory is full; set it to noeviction, or set allow_eviction on", errRefused, policy)
}

// field returns a field of the reply to INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// checkLayout refuses data of another layout, and marks an empty server.
func (c *client) checkLayout(ctx context.Context, l *link) error {
	key := c.options.Prefix + ":layout"
	if err := l.Do(ctx, l.B().Set().Key(key).Value(layout).Nx().Build()).Error(); err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	found, err := l.Do(ctx, l.B().Get().Key(key).Build()).ToString()
	if err != nil {
		return err
	}
	if found != layout {
		return fmt.Errorf("%w: its data has layout %q, this program knows layout %q", errRefused, found, layout)
	}
	return nil
}

// pings is how many keys Check writes in a cluster, so that several servers
// have one.
const pings = 8

// ping writes a key that expires soon, and reads the time of the server. In a
// cluster, one server that works is enough.
func (c *client) ping(ctx context.Context, use linkFunc) error {
	if !c.location.cluster {
		return c.pingKey(ctx, use, c.options.Prefix+":check")
	}
	results := make(chan error, pings)
	for i := range pings {
		go func() { results <- c.pingKey(ctx, use, fmt.Sprintf("%s:check:{%d}", c.options.Prefix, i)) }()
	}
	var err error
	for range pings {
		if err = <-results; err == nil {
			return nil
		}
	}
	return err
}

func (c *client) pingKey(ctx context.Context, use linkFunc, key string) error {
	sent := time.Now()
	reply, err := c.try(ctx, use, func(l *link) rueidis.RedisResult { return pingScript.exec(ctx, l, []string{key}, nil) })
	if err != nil {
		return err
	}
	now, err := reply.AsInt64()
	if err != nil {
		return unavailable(err)
	}
	c.clock.read(now, sent)
	return nil
}
