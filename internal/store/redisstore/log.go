package redisstore

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/outage"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// The log is in one slot, and accounts are in others. So a change writes its
// entries to a queue of the account, in the same script as the document, and a
// gate then appends them to the log and deletes them from the queue. Before,
// the account is noted in the set of pending ones. If the gate ends in between,
// another one finds the account there and does the rest. Each entry has a
// random number, by which the log has it once.

const (
	// queuePage is how many entries of a queue are read at once.
	queuePage = 100

	// orphanedAfter is how long after a mark other gates publish the queue of
	// the account.
	orphanedAfter = 20 * time.Second

	// publishEvery is how often a gate looks for such accounts.
	publishEvery = 2 * time.Second
)

// queued returns an entry as changeScript gets it: milliseconds, a random number
// and the value. The queue also has the time of the change.
func queued(l book.LogEntry) string {
	return decimal(max(0, l.At.UnixMilli())) + " " + rand.Text() + " " + string(l.Value)
}

// pend notes that the account may soon have entries in its queue.
func (c *change) pend(ctx context.Context) error {
	if len(c.step.After.Log) == 0 {
		return nil
	}
	c.mark = c.id + " " + newNumber()
	reply, err := c.client.runWrite(ctx, pendScript, []string{c.pendingKey()}, []string{c.mark})
	if err != nil {
		return err
	}
	r := reader{reply: reply}
	c.limitTime(r.int())
	return r.err
}

// publish moves the entries of the change to the log. If that fails, another
// gate does it: the change is made.
func (c *change) publish(ctx context.Context) error {
	if c.mark == "" {
		return nil
	}
	entries, err := texts(c.queued)
	if err == nil {
		err = c.Store.publish(ctx, c.id, entries, c.mark)
	}
	c.warn("writing the audit log; it is written later", err)
	return nil
}

// publish moves the queue of an account to the log, and deletes a mark unless it
// is empty. entries are the first of the queue.
func (s *Store) publish(ctx context.Context, account string, entries []string, mark string) error {
	for more := true; more; {
		if err := s.appendEntries(ctx, entries); err != nil {
			return err
		}
		deletions := len(entries)
		if more = deletions == queuePage; !more && mark != "" {
			deletions++ // of the mark
		}
		_, err := s.client.doMulti(ctx, deletions, func(b rueidis.Builder, i int) rueidis.Completed {
			if i == len(entries) {
				return b.Zrem().Key(s.pendingKey()).Member(mark).Build()
			}
			return b.Lrem().Key(s.queueKey(account)).Count(1).Element(entries[i]).Build()
		})
		if err == nil && more {
			entries, err = s.queue(ctx, account)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// appendEntries appends entries of queues to the log that it does not have.
func (s *Store) appendEntries(ctx context.Context, entries []string) error {
	for from := ""; len(entries) > 0; {
		args := append([]string{decimal(s.oldestEntry().UnixMilli()), from}, entries...)
		reply, err := s.client.runWrite(ctx, appendScript, []string{s.logKey()}, args)
		if err != nil || len(reply) == 0 {
			return err
		}
		left, err := texts(reply)
		if err != nil {
			return err
		}
		from, entries = left[0], left[1:]
	}
	return nil
}

// queue reads the first entries of the queue of an account.
func (s *Store) queue(ctx context.Context, account string) ([]string, error) {
	return ask(ctx, s.client, "the queue of the audit log", func(b rueidis.Builder) rueidis.Completed {
		return b.Lrange().Key(s.queueKey(account)).Start(0).Stop(queuePage - 1).Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
}

// publishOrphans publishes the queues of gates that ended during a change. The
// client reports if the server does not work.
func (s *Store) publishOrphans(ctx context.Context) {
	failures := outage.New(s.client.options.Logger, slog.LevelWarn, "writing the audit log of other gates")
	ticker := time.NewTicker(publishEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.publishMarked(ctx, s.Now().Add(-orphanedAfter)); err == nil {
			failures.Worked()
		} else if s.Check(ctx) == nil {
			failures.Failed(slog.Any("error", err))
		}
	}
}

// publishMarked publishes the queues of accounts with a mark from before a time.
func (s *Store) publishMarked(ctx context.Context, before time.Time) error {
	for {
		marks, err := ask(ctx, s.client, "the accounts with new entries", func(b rueidis.Builder) rueidis.Completed {
			return b.Zrangebyscore().Key(s.pendingKey()).Min("-inf").Max(decimal(before.UnixMicro())).Limit(0, queuePage).Build()
		}, (*rueidis.RedisMessage).AsStrSlice)
		if err != nil {
			return err
		}
		for _, mark := range marks {
			if err := s.publishQueue(ctx, mark, mark); err != nil {
				return err
			}
		}
		if len(marks) < queuePage {
			return nil
		}
	}
}

// publishQueue publishes the queue of the account of a mark. It deletes the mark
// done unless it is empty.
func (s *Store) publishQueue(ctx context.Context, mark, done string) error {
	account, _, _ := strings.Cut(mark, " ")
	entries, err := s.queue(ctx, account)
	if err != nil {
		return err
	}
	return s.publish(ctx, account, entries, done)
}

// publishAll publishes the queues of all changes that are made. A young mark
// stays, because its change may be made later.
func (s *Store) publishAll(ctx context.Context) error {
	if err := s.publishMarked(ctx, s.Now().Add(-orphanedAfter)); err != nil {
		return err
	}
	marks, err := ask(ctx, s.client, "the accounts with new entries", func(b rueidis.Builder) rueidis.Completed {
		return b.Zrange().Key(s.pendingKey()).Min("0").Max("-1").Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
	for _, mark := range marks {
		if err == nil {
			err = s.publishQueue(ctx, mark, "")
		}
	}
	return err
}

// oldestEntry is the least time of entries that are kept.
func (s *Store) oldestEntry() time.Time { return s.Now().AddDate(0, 0, -store.ReportsFor) }

// Entries implements book.Engine.
func (s *Store) Entries(ctx context.Context, after, before store.EntryID, reverse bool, limit int) ([]book.LogEntry, error) {
	start, end := "-", "+"
	if after.Milliseconds >= 0 {
		start = "(" + after.String()
	}
	if before != (store.EntryID{}) {
		end = "(" + before.String()
	}
	found, err := ask(ctx, s.client, "the audit log", func(b rueidis.Builder) rueidis.Completed {
		if reverse {
			return b.Xrevrange().Key(s.logKey()).End(end).Start(start).Count(int64(limit)).Build()
		}
		return b.Xrange().Key(s.logKey()).Start(start).End(end).Count(int64(limit)).Build()
	}, (*rueidis.RedisMessage).AsXRange)
	if err != nil {
		return nil, err
	}
	list := make([]book.LogEntry, len(found))
	for i, e := range found {
		id, err := store.ParseEntryID(e.ID)
		if err != nil {
			return nil, damaged("the audit log", err)
		}
		list[i] = book.LogEntry{ID: id, At: time.UnixMilli(id.Milliseconds).UTC(), Value: []byte(e.FieldValues["e"])}
	}
	return list, nil
}

// texts reads texts of a reply.
func texts(reply []rueidis.RedisMessage) ([]string, error) {
	r, list := reader{reply: reply}, make([]string, len(reply))
	for i := range list {
		list[i] = r.text()
	}
	if r.err != nil {
		return nil, damaged("reply", r.err)
	}
	return list, nil
}
