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
	// checkInterval is the time between two checks of a server that works.
	checkInterval = time.Second

	// retryInterval is the time between two tries to connect.
	retryInterval = 100 * time.Millisecond
)

// errNoCluster says that rueidis could not read the slots of a cluster, and
// would use one server for all keys.
var errNoCluster = errors.New("the server is not part of a cluster, or the user may not read its slots")

// keep connects, and follows the state of the servers.
func (c *client) keep(ctx context.Context) {
	defer close(c.ended)
	for first := true; ; first = false {
		err := c.maintain(ctx)
		if ctx.Err() != nil {
			return
		}
		c.report(err, first)
		pause, wake := checkInterval, c.wake
		if err != nil {
			// A connection that opens and fails must not lead to the next
			// one at once.
			wake = nil
			if !errors.Is(err, errRefused) {
				pause = retryInterval
			}
		}
		select {
		case <-wake:
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// report tells the state, and logs a change.
func (c *client) report(err error, first bool) {
	works := err == nil
	changed := works != c.works || first
	c.works = works
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
	l, err := c.linked()
	if err == nil {
		err = c.examine(ctx, l)
	}
	c.applyCheck(l, err)
	if err != nil {
		return err
	}
	if c.options.restore {
		return nil
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	return c.ping(ctx)
}

// linked returns the link, or a new one that no request uses yet.
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
	if err != nil {
		return nil, err
	}
	l = &link{Client: made}
	if c.location.cluster && made.Mode() != rueidis.ClientModeCluster {
		return l, errNoCluster
	}
	return l, nil
}

// applyCheck decides whether requests use a link, by the error of its check.
func (c *client) applyCheck(l *link, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		l.refused, c.link = nil, l
	case c.link == nil:
		c.down = c.hide(err)
		if l != nil {
			go l.Close() // it can take long
		}
	case errors.Is(err, errRefused):
		l.refused = err // until a check without an error
	case errors.Is(err, errReplica):
		l.broken = true
	}
}

// pings is how many keys Check writes in a cluster, so that several servers
// have one.
const pings = 8

// ping writes a key that expires soon, and reads the time of the server. In a
// cluster, one server that works is enough.
func (c *client) ping(ctx context.Context) error {
	keys := c.pingKeys()
	results := make(chan error, len(keys))
	for _, key := range keys {
		go func() { results <- c.pingKey(ctx, key) }()
	}
	var err error
	for range keys {
		if err = <-results; err == nil {
			return nil
		}
	}
	return err
}

// pingKeys are the keys that ping writes. Restore sees by them that a gate
// uses the data.
func (c *client) pingKeys() (keys []string) {
	if !c.location.cluster {
		return []string{c.options.Prefix + ":check"}
	}
	for i := range pings {
		keys = append(keys, fmt.Sprintf("%s:check:{%d}", c.options.Prefix, i))
	}
	return keys
}

func (c *client) pingKey(ctx context.Context, key string) error {
	sent := time.Now()
	reply, err := c.try(ctx, func(l *link) rueidis.RedisResult { return pingScript.exec(ctx, l, []string{key}, nil) })
	if err != nil {
		return err
	}
	list, err := array(reply)
	if err != nil {
		return err
	}
	r := reader{reply: list}
	c.clock.read(r.int(), sent, time.Now())
	return r.err
}
