package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

// maxChanges is how many changes wait for replicas at the same time. Each has a
// connection of its own.
const maxChanges = 16

// waitLag is how late a server answers WAIT after its timeout at most. By
// default Redis looks at timeouts ten times a second.
const waitLag = 200 * time.Millisecond

// errReplicas says that fewer replicas than Options.WaitReplicas have a change.
var errReplicas = errors.New("too few replicas have the change")

// write sends a change that must be on Options.WaitReplicas replicas before it
// is confirmed.
func (c *client) write(ctx context.Context, send func(rueidis.CoreClient) rueidis.RedisResult) (rueidis.RedisMessage, error) {
	if c.options.WaitReplicas == 0 {
		return c.do(ctx, func(l *link) rueidis.RedisResult { return send(l) })
	}
	return c.do(ctx, func(l *link) rueidis.RedisResult {
		select {
		case c.changes <- struct{}{}:
		case <-ctx.Done():
			return rueidis.NewErrorResult(ctx.Err())
		}
		// rueidis does not end all waits of a connection with ctx.
		result := make(chan rueidis.RedisResult, 1)
		go func() {
			defer func() { <-c.changes }()
			result <- c.replicate(ctx, l, send)
		}()
		select {
		case r := <-result:
			return r
		case <-ctx.Done():
			return rueidis.NewErrorResult(ctx.Err())
		}
	})
}

// runWrite runs a script like write.
func (c *client) runWrite(ctx context.Context, s *script, keys, args []string) ([]rueidis.RedisMessage, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	reply, err := c.write(ctx, func(to rueidis.CoreClient) rueidis.RedisResult { return s.exec(ctx, to, keys, args) })
	if err != nil {
		return nil, err
	}
	return array(reply)
}

// replicate sends a change and waits for the replicas. WAIT holds up the other
// requests of its connection, so it has one of its own.
func (c *client) replicate(ctx context.Context, l *link, send func(rueidis.CoreClient) rueidis.RedisResult) rueidis.RedisResult {
	own, release := l.Dedicate()
	defer release()
	result := send(own)
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		if _, isReply := rueidis.IsRedisErr(err); !isReply {
			own.Close()
		}
		return result
	}
	left := c.options.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	// The answer must come before the deadline. A timeout of 0 has no end.
	timeout := max(1, max(left/4, min(left*3/4, left-waitLag)).Milliseconds())
	n, err := own.Do(ctx, own.B().Wait().Numreplicas(int64(c.options.WaitReplicas)).Timeout(timeout).Build()).AsInt64()
	if err != nil {
		own.Close()
		return rueidis.NewErrorResult(fmt.Errorf("waiting for replicas: %w", err))
	}
	if n < int64(c.options.WaitReplicas) {
		return rueidis.NewErrorResult(fmt.Errorf("%w: %d of %d", errReplicas, n, c.options.WaitReplicas))
	}
	return result
}
