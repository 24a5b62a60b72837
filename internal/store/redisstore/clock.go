package redisstore

import (
	"sync"
	"time"
)

// clock follows the clock of the server, so that days, keys and overrides end
// at the same instant on all gates. A step of the clock of this machine changes
// neither Now nor Since.
type clock struct {
	// began is when the clock was made. The monotonic reading counts from there.
	began time.Time

	mu     sync.RWMutex
	offset time.Duration // of the server, to steady
}

// steady returns an instant as a clock shows it that was right at began and
// never steps.
func (c *clock) steady(t time.Time) time.Time { return c.began.Add(t.Sub(c.began)) }

// Now returns the time of the server. The error is at most the time that the
// fastest reply took.
func (c *clock) Now() time.Time { return c.server(time.Now()) }

// Since returns the time since a time of Now.
func (c *clock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// server returns what the server's clock shows at an instant.
func (c *clock) server(at time.Time) time.Time { return c.steady(at).Add(c.ahead()) }

func (c *clock) ahead() time.Duration {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.offset
}

// read learns from a reply with the time of the server, in microseconds. The
// server read its clock after the request was sent, and before the reply.
func (c *clock) read(server int64, sent, replied time.Time) {
	at := time.UnixMicro(server)
	// The server's clock has microseconds, this one has more.
	least, most := at.Sub(c.steady(replied)), at.Sub(c.steady(sent))+time.Microsecond
	if ahead := c.ahead(); least <= ahead && ahead <= most {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = min(max(c.offset, least), most)
}
