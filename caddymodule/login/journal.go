package login

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Journal keeps rows across restarts. The Throttle calls Save from one
// goroutine at a time, and what a later call saves is newer than what an
// earlier one did.
type Journal interface {
	// Save writes the rows, replacing older ones of the same key, and
	// returns when they will survive the end of the process. No key occurs
	// twice. The context carries values only and is never done: Save
	// bounds its own time. After an error any of the rows may have been
	// written.
	Save(ctx context.Context, rows []Row) error
}

// Row is a durable piece of the state.
type Row struct {
	// Key is 10 or 17 bytes long and unique among the throttle's rows.
	Key []byte
	// Value is what to keep; nil removes the row.
	Value []byte
	// ExpiresAt is when the row becomes worthless and should be dropped.
	// It is zero if Value is nil.
	ExpiresAt time.Time
}

// errJournalPanic is what attempts get whose batch a panic took down.
var errJournalPanic = errors.New("journal panicked")

// committer saves rows for all attempts that wait, one batch at a time. The
// rows are read when their batch's turn has come: so no batch can write a
// state older than the batch before it did.
type committer struct {
	journal Journal
	read    func(rowKey) Row

	turn sync.Mutex // held while a batch is saved
	mu   sync.Mutex // guards what follows
	open *batch     // takes more keys until its turn comes
	late []rowKey   // go along with the next batch
}

type batch struct {
	keys []rowKey
	done chan struct{}
	err  error // to be read after done
}

// save returns when rows at least as new as those at the time of the call
// are saved. Whoever opens a batch saves it for all that joined meanwhile.
func (c *committer) save(ctx context.Context, keys ...rowKey) error {
	if c.journal == nil {
		return nil
	}
	c.mu.Lock()
	joined := c.open
	leads := joined == nil
	if leads {
		joined = &batch{done: make(chan struct{})}
		c.open = joined
	}
	joined.keys = append(joined.keys, keys...)
	c.mu.Unlock()
	if leads {
		c.lead(context.WithoutCancel(ctx), joined)
	}
	<-joined.done
	return joined.err
}

func (c *committer) lead(ctx context.Context, b *batch) {
	c.turn.Lock()
	defer c.turn.Unlock()
	defer close(b.done)
	c.mu.Lock()
	c.open = nil
	keys := slices.Concat(b.keys, c.late)
	c.late = nil
	c.mu.Unlock()
	rows := make([]Row, 0, len(keys))
	seen := make(map[rowKey]struct{}, len(keys))
	for _, key := range keys {
		if _, twice := seen[key]; !twice {
			seen[key] = struct{}{}
			rows = append(rows, c.read(key))
		}
	}
	b.err = errJournalPanic
	b.err = c.journal.Save(ctx, rows)
}

// later has rows saved along with the next batch. Should that batch fail,
// they are not saved: it is used for rows that were evicted, which then
// come back at the next start.
func (c *committer) later(keys ...rowKey) {
	if c.journal == nil || len(keys) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = append(c.late, keys...)
}

// row reads what a table has under a key at this moment.
func (t *Throttle) row(key rowKey) Row {
	body, expires, as := t.body(key)
	if body == nil {
		return Row{Key: key.bytes()}
	}
	return Row{Key: key.bytes(), Value: encode(body, expires, as), ExpiresAt: t.clock.wall(expires)}
}

// body copies, because a table's own bytes are valid under its lock only.
func (t *Throttle) body(key rowKey) (body []byte, expires int64, as rank) {
	if key.kind == ofClient {
		shard := t.clientShard(key.client)
		shard.mu.Lock()
		defer shard.mu.Unlock()
		return shard.attempts.copyOf(key.client)
	}
	shard := t.accountShard(key.account)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if key.kind == ofFailures {
		return shard.failures.copyOf(key.account)
	}
	return shard.known.copyOf(key.account)
}
