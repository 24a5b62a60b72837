package redisstore

import (
	"sync"
	"time"
)

// clock follows the clock of the server, so that days, keys and overrides end
// at the same instant on all gates.
type clock struct {
	mu     sync.RWMutex
	offset time.Duration // of the server, to the clock of this machine
}

// Now returns the time of the server. The error is at most the time that the
// fastest reply took.
func (c *clock) Now() time.Time { return time.Now().Add(c.ahead()) }

// Since returns the time since a time of Now.
func (c *clock) Since(t time.Time) time.Duration { return time.Since(t) + c.ahead() }

func (c *clock) ahead() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.offset
}

// read learns from a reply with the time of the server, in microseconds. The
// server read its clock after the request was sent, and before now.
func (c *clock) read(server int64, sent time.Time) {
	at := time.UnixMicro(server)
	// The server's clock has microseconds, this one has more.
	least, most := time.Until(at), at.Sub(sent)+time.Microsecond
	if ahead := c.ahead(); least <= ahead && ahead <= most {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = min(max(c.offset, least), most)
}
