package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/rueidis"
)

const (
	// beat is the time between two looks at a server that works.
	beat = time.Second

	// again is the time between two tries to connect.
	again = 100 * time.Millisecond
)

// keep connects, and follows the state of the servers.
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

// report tells the state, and logs a change.
func (c *client) report(err error, first bool) {
	works := err == nil
	changed := works != c.works || first
	c.works = works
	c.options.State(works)
	switch {
	case !changed:
	case works:
		c.options.Logger.Info("redis works", slog.String("store", c.options.Name()))
	default:
		c.options.Logger.Error("redis does not work", slog.String("store", c.options.Name()), slog.Any("error", c.hide(err)))
	}
}

// maintain makes a link if there is none, checks its servers, and tries what a
// call needs.
func (c *client) maintain(ctx context.Context) error {
	c.mu.Lock()
	l := c.link
	if l != nil && l.broken {
		c.drop(errConnecting)
		l = nil
	}
	c.mu.Unlock()
	if l == nil {
		return c.connect(ctx)
	}
	err := c.examine(ctx, l)
	c.mu.Lock()
	// A refused server that does not answer stays refused.
	if err == nil || errors.Is(err, errRefused) {
		l.refused = err
	}
	l.broken = l.broken || errors.Is(err, errReplica)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	return c.ping(ctx)
}

// connect makes a link and checks its servers. Without an error, requests use
// it.
func (c *client) connect(ctx context.Context) error {
	made, err := rueidis.NewClient(c.rueidisOptions())
	if err == nil {
		if c.location.cluster && made.Mode() != rueidis.ClientModeCluster {
			err = errors.New("the server is not part of a cluster, or the user may not ask for its slots")
		} else {
			err = c.examine(ctx, &link{Client: made})
		}
		if err != nil {
			go made.Close() // it can take long
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.down = c.hide(err)
		return err
	}
	c.link = &link{Client: made}
	c.wakeUp() // for a ping
	return nil
}

// pings is how many keys Check writes in a cluster, so that several servers
// have one.
const pings = 8

// ping writes a key that expires soon, and reads the time of the server. In a
// cluster, one server that works is enough.
func (c *client) ping(ctx context.Context) error {
	if !c.location.cluster {
		return c.pingKey(ctx, c.options.Prefix+":check")
	}
	results := make(chan error, pings)
	for i := range pings {
		go func() { results <- c.pingKey(ctx, fmt.Sprintf("%s:check:{%d}", c.options.Prefix, i)) }()
	}
	var err error
	for range pings {
		if err = <-results; err == nil {
			return nil
		}
	}
	return err
}

func (c *client) pingKey(ctx context.Context, key string) error {
	sent := time.Now()
	reply, err := c.try(ctx, func(l *link) rueidis.RedisResult { return pingScript.exec(ctx, l, []string{key}, nil) })
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
