package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
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

// Restore writes the items of an export to an empty server. It returns
// store.ErrInUse if a gate uses the prefix, and store.ErrNotEmpty if there is
// data. The key of a gate that has just ended expires after 10 s: Restore waits
// for that.
//
// Gates refuse the data until Restore has finished, also after an error. Then
// delete all keys of the prefix, and restore again. No command is sent twice,
// so each lost reply is such an error.
func Restore(ctx context.Context, o Options, items iter.Seq2[store.Item, error]) error {
	o.restore = true
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
	for item, err := range items {
		if err == nil {
			err = r.add(ctx, item)
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

// restore writes items. What it writes is not atomic: no gate reads it yet.
type restore struct {
	*Store
	commands []rueidis.Completed
	size     int // of commands, about, in bytes
	// calls are the newest of one account, a few more than are kept. They
	// wait to be sorted.
	calls []store.Record
	known int64 // when the last known event expires, in seconds since 1970
}

// connect waits for a connection.
func (r *restore) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	for {
		_, err := r.client.use()
		if err == nil || errors.Is(err, errRefused) || !sleep(ctx, again) {
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
		if !sleep(ctx, again) {
			return ctx.Err()
		}
	}
}

// presence returns how long the keys of a gate live, at most.
func (r *restore) presence(ctx context.Context) (left time.Duration, err error) {
	keys := r.client.pingKeys()
	replies, err := r.client.doMulti(ctx, len(keys), func(l *link, i int) rueidis.Completed { return l.B().Pttl().Key(keys[i]).Build() })
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
	keys := []string{r.indexKey(), r.liveKeysKey(), r.auditKey(), r.knownKey(), r.queueKeys()[0]}
	today := calendar.UTCDay(r.Now())
	for day := today - store.ReportsFor - 1; day <= today+1; day++ {
		keys = append(keys, r.refusedKeys(day)[0])
	}
	replies, err := r.client.doMulti(ctx, len(keys), func(l *link, i int) rueidis.Completed { return l.B().Exists().Key(keys[i]).Build() })
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

// add adds an item to the next batch.
func (r *restore) add(ctx context.Context, item store.Item) error {
	if len(r.commands) >= restoreBatch || r.size >= restoreBytes {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	l, err := r.client.use()
	if err != nil {
		return err
	}
	b := l.B()
	if len(r.calls) > 0 && (item.Call == nil || item.Call.Account != r.calls[0].Account) {
		if err := r.addCalls(b); err != nil {
			return err
		}
	}
	switch {
	case item.Account != nil:
		return r.addAccount(b, item.Account)
	case item.Key != nil:
		return r.addKey(b, item.Key)
	case item.Count != nil:
		r.addCount(b, item.Count)
	case item.Call != nil:
		r.addCall(*item.Call)
	case item.Refused != nil:
		r.addRefused(b, item.Refused)
	case item.Entry != nil:
		return r.addEntry(b, item.Entry)
	case item.Event != nil:
		return r.addEvent(b, item.Event)
	}
	return nil
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
	if len(r.calls) > 0 {
		if err := r.addCalls(l.B()); err != nil {
			return err
		}
	}
	commands := r.commands
	r.commands, r.size = nil, 0
	ctx, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	for _, result := range l.DoMulti(ctx, commands...) {
		// One error is enough: the others often have the same cause.
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return unavailable(r.client.hide(err))
		}
	}
	return nil
}
