package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// layout is the number of the layout of the data.
const layout = "7"

// unfinished is the layout of data that a restore is writing, or has not
// finished.
const unfinished = "restore not finished"

var (
	// errRefused says that a server must not be used.
	errRefused = errors.New("the server is not used")

	// errReplica says that a server takes no writes.
	errReplica = errors.New("the server is a replica")
)

// inspect checks the server at an address, over a connection of its own, before
// another connection is used. After a failover, the same name may lead to
// another server.
func (c *client) inspect(ctx context.Context, address string) error {
	ctx, cancel := c.within(ctx)
	defer cancel()
	o := c.rueidisOptions()
	o.InitAddress, o.ForceSingleClient = []string{address}, true
	o.Sentinel, o.ClusterOption = rueidis.SentinelOption{}, rueidis.ClusterOption{}
	o.DialCtxFn = c.dialer.connect
	o.RingScaleEachConn = 4
	result := make(chan error, 1)
	go func() {
		probe, err := rueidis.NewClient(o) // it does not take a context
		if err == nil {
			err = c.checkServer(ctx, probe)
			if err == nil && !c.location.cluster { // in a cluster, another server may have it
				err = c.checkLayout(ctx, probe)
			}
			probe.Close()
		}
		result <- err
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// examine checks the servers of a link again: their settings can change.
func (c *client) examine(ctx context.Context, l *link) error {
	nodes := map[string]rueidis.Client{"": l}
	if c.location.cluster {
		nodes = l.Nodes()
	}
	results := make(chan error, len(nodes))
	for _, node := range nodes {
		go func() {
			ctx, cancel := c.within(ctx)
			defer cancel()
			results <- c.checkServer(ctx, node)
		}()
	}
	err := errors.New("no server answers")
	for range nodes {
		// One server of a cluster that works is enough.
		switch one := <-results; {
		case errors.Is(one, errRefused):
			return one
		case one == nil || err != nil:
			err = one
		}
	}
	if err != nil {
		return err
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	err = c.checkLayout(ctx, l)
	// The server of a cluster that has the layout may be down. The others go
	// on: the data of a cluster does not change with a connection.
	if c.location.cluster && c.knowsLayout && !errors.Is(err, errRefused) {
		return nil
	}
	c.knowsLayout = err == nil
	return err
}

// checkServer checks the version of a server, and that it takes writes and
// deletes no keys.
func (c *client) checkServer(ctx context.Context, node rueidis.Client) error {
	info, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if reason, isReply := rueidis.IsRedisErr(err); isReply && strings.HasPrefix(reason.Error(), "NOPERM") {
		c.warn("the user may not run INFO, so version, maxmemory-policy and role of the server are not checked")
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
	case !c.location.cluster && field(info, "role") == "slave":
		return errReplica
	case c.options.AllowEviction || policy == "noeviction":
		return nil
	case policy == "":
		c.warn("the server does not tell its maxmemory-policy; set it to noeviction")
		return nil
	}
	return fmt.Errorf("%w: its maxmemory-policy %q deletes counts when its memory is full; set it to noeviction, or set allow_eviction on", errRefused, policy)
}

// warn logs a warning once.
func (c *client) warn(message string) {
	if _, warned := c.warned.LoadOrStore(message, true); !warned {
		c.options.Logger.Warn(message, slog.String("store", c.options.Name()))
	}
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
func (c *client) checkLayout(ctx context.Context, node rueidis.Client) error {
	if c.options.restore {
		return nil
	}
	key := c.layoutKey()
	found, err := node.Do(ctx, node.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		if err = node.Do(ctx, node.B().Set().Key(key).Value(layout).Nx().Build()).Error(); err == nil || rueidis.IsRedisNil(err) {
			found, err = node.Do(ctx, node.B().Get().Key(key).Build()).ToString()
		}
	}
	if err != nil {
		return err
	}
	if found == unfinished {
		return fmt.Errorf("%w: %w", errRefused, c.errUnfinished())
	}
	if found != layout {
		return fmt.Errorf("%w: its data has layout %q, this program knows layout %q", errRefused, found, layout)
	}
	return nil
}

func (c *client) layoutKey() string { return c.options.Prefix + ":layout" }

// errUnfinished says what to do with data of a restore that has not finished.
func (c *client) errUnfinished() error {
	return fmt.Errorf("a restore of its data has not finished: wait for it, or delete all keys that begin with %q and restore again", c.options.Prefix+":")
}
