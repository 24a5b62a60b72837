package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	// restoreBatch is how many commands a restore sends at once, and
	// restoreBytes about how large they are in memory.
	restoreBatch = 1000
	restoreBytes = 4 << 20

	// restoreWait is how long a restore waits for a connection, and for the
	// reply to a batch.
	restoreWait = 10 * time.Second
)

// Restore writes the pieces of a dump to an empty server. It returns
// store.ErrInUse if a gate uses the prefix, and store.ErrNotEmpty if there is
// data. The key of a gate that has just ended expires after 10 s: Restore waits
// for that.
//
// Gates refuse the data until Restore has finished, also after an error. Then
// delete all keys of the prefix, and restore again. No command is sent twice,
// so each lost reply is such an error.
func Restore(ctx context.Context, o Options, pieces iter.Seq2[book.Piece, error]) error {
	o.restore, o.Timeout = true, restoreWait
	o, err := o.resolve()
	if err != nil {
		return err
	}
	c, err := newClient(o)
	if err != nil {
		return err
	}
	defer c.close()
	r := &restore{Store: &Store{client: c, prefix: o.Prefix}}
	if err := r.connect(ctx); err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	for piece, err := range pieces {
		if err == nil {
			err = r.add(ctx, piece)
		}
		if err != nil {
			return err
		}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	return r.setLayout(ctx, layout)
}

// restore writes pieces. What it writes is not atomic: no gate reads it yet.
type restore struct {
	*Store
	commands []rueidis.Completed
	rows     []book.Batch
	size     int // of commands and rows, about, in bytes
}

// connect waits for a connection.
func (r *restore) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	for {
		_, err := r.client.use()
		if err == nil || errors.Is(err, errRefused) || !sleep(ctx, retryInterval) {
			return err
		}
	}
}

// begin marks an empty server that no gate uses.
func (r *restore) begin(ctx context.Context) error {
	if err := r.checkUse(ctx); err != nil {
		return err
	}
	if err := r.checkEmpty(ctx); err != nil {
		return err
	}
	reply, err := r.client.one(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Set().Key(r.client.layoutKey()).Value(unfinished).Get().Build()
	})
	if err != nil {
		return err
	}
	before := layout
	if !reply.IsNil() {
		before, err = reply.ToString()
	}
	switch {
	case err != nil:
		return damaged("layout", err)
	case before == unfinished:
		return fmt.Errorf("%w: %w", store.ErrNotEmpty, r.client.errUnfinished())
	case before != layout:
		err = fmt.Errorf("%w: its data has layout %q, this program knows layout %q", store.ErrNotEmpty, before, layout)
	default:
		// A gate may have begun in the meantime. Those after the mark do not.
		err = r.checkEmpty(ctx)
		left, failed := r.presence(ctx)
		if err = cmp.Or(err, failed); err == nil && left > 0 {
			err = fmt.Errorf("%w: a gate has just connected to %s", store.ErrInUse, r.client.options.Name())
		}
	}
	if err != nil {
		return errors.Join(err, r.setLayout(context.WithoutCancel(ctx), before))
	}
	return nil
}

func (r *restore) setLayout(ctx context.Context, value string) error {
	ctx, cancel := r.client.within(ctx)
	defer cancel()
	_, err := r.client.write(ctx, func(c rueidis.CoreClient) rueidis.RedisResult {
		return c.Do(ctx, c.B().Set().Key(r.client.layoutKey()).Value(value).Build())
	})
	return err
}

// checkUse waits until the key of a gate that has ended expires. A gate that
// works writes it again within about a second.
func (r *restore) checkUse(ctx context.Context) error {
	for last := time.Duration(0); ; {
		left, err := r.presence(ctx)
		switch {
		case err != nil:
			return err
		case left == 0:
			return nil
		case last != 0 && left > last:
			return fmt.Errorf("%w: a gate uses %s", store.ErrInUse, r.client.options.Name())
		}
		last = left
		if !sleep(ctx, retryInterval) {
			return ctx.Err()
		}
	}
}

// presence returns how long the keys of a gate live, at most.
func (r *restore) presence(ctx context.Context) (left time.Duration, err error) {
	keys := r.client.pingKeys()
	replies, err := r.client.doMulti(ctx, len(keys), func(b rueidis.Builder, i int) rueidis.Completed { return b.Pttl().Key(keys[i]).Build() })
	if err != nil {
		return 0, err
	}
	for _, reply := range replies {
		ms, err := reply.AsInt64()
		if err != nil {
			return 0, damaged("the key of a gate", err)
		}
		left = max(left, time.Duration(ms)*time.Millisecond)
	}
	return left, nil
}

// checkEmpty refuses a server that has accounts, tokens or reports.
func (r *restore) checkEmpty(ctx context.Context) error {
	keys := []string{r.accountsKey(), r.liveKeysKey(), r.logKey(), r.pendingKey()}
	for _, of := range book.Spaces(r.Now()) {
		keys = append(keys, r.spaceKeys(of)[0])
	}
	replies, err := r.client.doMulti(ctx, len(keys), func(b rueidis.Builder, i int) rueidis.Completed { return b.Exists().Key(keys[i]).Build() })
	if err != nil {
		return err
	}
	for i, reply := range replies {
		if n, err := reply.AsInt64(); err != nil || n > 0 {
			return errors.Join(fmt.Errorf("%w: %s has %s", store.ErrNotEmpty, r.client.options.Name(), keys[i]), err)
		}
	}
	return nil
}

// add adds a piece to the next batch.
func (r *restore) add(ctx context.Context, p book.Piece) error {
	if len(r.commands)+len(r.rows) >= restoreBatch || r.size >= restoreBytes {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	l, err := r.client.use()
	if err != nil {
		return err
	}
	b := l.B()
	switch {
	case p.Document != nil:
		r.addDocument(b, p.Document)
	case p.Count != nil:
		r.addCount(b, p.Count)
	case p.Row != nil:
		r.addRow(p.Space, *p.Row)
	case p.Entry != nil:
		r.send(b.Xadd().Key(r.logKey()).Id(p.Entry.ID.String()).FieldValue().FieldValue("e", string(p.Entry.Value)).FieldValue("n", "").Build())
	}
	return nil
}

func (r *restore) addDocument(b rueidis.Builder, a *book.Account) {
	handle, parts := newNumber(), a.Encode()
	r.send(
		b.Hset().Key(r.accountKey(a.ID)).FieldValue().FieldValue("i", handle).FieldValue("v", newNumber()).FieldValue("a", string(parts.Account)).
			FieldValue("k", string(parts.Keys)).FieldValue("l", string(parts.Logins)).Build(),
		b.Zadd().Key(r.accountsKey()).ScoreMember().ScoreMember(0, listed(a.ID, handle)).Build(),
	)
	for _, k := range a.Keys {
		own := tokenEntry{account: a.ID, key: k.ID}.String()
		live := k.Live(r.Now())
		// A key that has ended does not replace a live one of another
		// account with the same token.
		r.send(setEntry(b, r.tokenKey(k.Hash), own, expiry(k, expiredFor), live), setEntry(b, r.idKey(k.ID), own, expiry(k, listedFor), true))
		if live {
			r.send(r.countKey(b, k))
		}
	}
}

// setEntry writes an entry, unless there is one and it does not replace that.
func setEntry(b rueidis.Builder, key, value, expires string, replaces bool) rueidis.Completed {
	command := b.Arbitrary("SET").Keys(key).Args(value)
	if expires != "" {
		command = command.Args("PXAT", expires)
	}
	if !replaces {
		command = command.Args("NX")
	}
	return command.Build()
}

// addCount adds to the four counters of a call.
func (r *restore) addCount(b rueidis.Builder, c *store.StoredCount) {
	month, day := dateOf(c.Day)
	key := r.countsKey(c.Account, c.Key, month)
	for _, field := range []string{day + ":" + c.Endpoint, c.Endpoint, day + ":*", "*"} {
		r.send(b.Hincrby().Key(key).Field(field).Increment(c.Used).Build())
	}
	if c.Day != store.TotalDay {
		r.send(b.Arbitrary("EXPIREAT").Keys(key).Args(decimal(countsExpire(c.Day))).Build())
	}
}

// addRow adds a row to those of its space that were added last.
func (r *restore) addRow(of book.Space, row book.Row) {
	if n := len(r.rows); n == 0 || r.rows[n-1].Space != of || len(r.rows[n-1].Writes) == dumpPage {
		r.rows = append(r.rows, book.Batch{Space: of})
	}
	last := &r.rows[len(r.rows)-1]
	last.Writes = append(last.Writes, book.Write{Row: row})
	r.size += len(row.Key) + len(row.Value)
}

func (r *restore) send(commands ...rueidis.Completed) {
	r.commands = append(r.commands, commands...)
	for _, command := range commands {
		for _, part := range command.Commands() {
			r.size += len(part)
		}
	}
}

// flush sends what was added.
func (r *restore) flush(ctx context.Context) error {
	l, err := r.client.use()
	if err != nil {
		return err
	}
	commands, rows := r.commands, r.rows
	r.commands, r.rows, r.size = nil, nil, 0
	within, cancel := r.client.within(ctx)
	defer cancel()
	for _, result := range l.DoMulti(within, commands...) {
		// One error is enough: the others often have the same cause.
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return unavailable(r.client.hide(err))
		}
	}
	return errors.Join(r.commit(ctx, true, rows)...)
}
