package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
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

	// restorePath is how much of the path of a recent call a restore keeps, in
	// bytes. Few servers accept longer ones.
	restorePath = 64 << 10

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
	r := &restore{Store: &Store{client: c, prefix: o.Prefix}, counts: map[countsOf]map[string]int64{}}
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
			return fmt.Errorf("restoring: %w", err)
		}
	}
	if err := r.flush(ctx); err != nil {
		return fmt.Errorf("restoring: %w", err)
	}
	return r.setLayout(ctx, layout)
}

// restore writes items. What it writes is not atomic: no gate reads it yet.
type restore struct {
	*Store
	commands []rueidis.Completed
	// counts wait to be added, so that rows of one month need few commands.
	counts map[countsOf]map[string]int64
	size   int // of commands and counts, about, in bytes
	// calls are the newest of one account, a few more than are kept. They
	// wait to be sorted.
	calls []store.Record
	known int64 // when the last known event expires, in seconds since 1970
}

// countsOf is a key with counts, and when it expires.
type countsOf struct{ key, expire string }

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
	before, err := r.mark(ctx)
	if err != nil {
		return err
	}
	// A gate may have begun in the meantime. Those after the mark do not.
	if err = r.checkEmpty(ctx); err == nil {
		var left time.Duration
		if left, err = r.presence(ctx); err == nil && left > 0 {
			err = fmt.Errorf("%w: a gate has just connected to %s", store.ErrInUse, r.client.options.Name())
		}
	}
	if err != nil {
		return errors.Join(err, r.setLayout(context.WithoutCancel(ctx), before))
	}
	return nil
}

// mark sets the layout of data that is not finished, and returns the one before.
func (r *restore) mark(ctx context.Context) (before string, err error) {
	ctx, cancel := r.client.within(ctx)
	defer cancel()
	reply, err := r.client.do(ctx, func(l *link) rueidis.RedisResult {
		return l.Do(ctx, l.B().Set().Key(r.client.layoutKey()).Value(unfinished).Get().Build())
	})
	if err != nil || reply.IsNil() {
		return layout, err
	}
	if before, err = reply.ToString(); err != nil {
		return "", damaged("layout", err)
	}
	switch before {
	case layout:
		return before, nil
	case unfinished:
		return "", fmt.Errorf("%w: %w", store.ErrNotEmpty, r.client.errUnfinished())
	}
	err = fmt.Errorf("%w: its data has layout %q", store.ErrNotEmpty, before)
	return "", errors.Join(err, r.setLayout(context.WithoutCancel(ctx), before))
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
	ctx, cancel := r.client.within(ctx)
	defer cancel()
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
	ctx, cancel := r.client.within(ctx)
	defer cancel()
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

func (r *restore) builder() (rueidis.Builder, error) {
	l, err := r.client.use()
	if err != nil {
		return rueidis.Builder{}, err
	}
	return l.B(), nil
}

// add adds an item to the next batch.
func (r *restore) add(ctx context.Context, item store.Item) error {
	if len(r.commands)+len(r.counts) >= restoreBatch || r.size >= restoreBytes {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	b, err := r.builder()
	if err != nil {
		return err
	}
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
		r.addCount(item.Count)
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

func (r *restore) addAccount(b rueidis.Builder, account *store.Account) error {
	handle := newNumber()
	fields, err := encodeAccount(&state{handle: handle, version: newNumber(), account: *account})
	if err != nil {
		return err
	}
	set := b.Hset().Key(r.accountKey(account.ID)).FieldValue()
	for pair := range slices.Chunk(fields, 2) {
		set = set.FieldValue(pair[0], pair[1])
	}
	r.send(set.Build(), b.Zadd().Key(r.indexKey()).ScoreMember().ScoreMember(0, listed(account.ID, handle)).Build())
	return nil
}

func (r *restore) addKey(b rueidis.Builder, k *store.StoredKey) error {
	row, err := encodeKey(&k.Key, k.Hash)
	if err != nil {
		return err
	}
	set := b.Hset().Key(r.keysKey(k.Account)).FieldValue().FieldValue(keyField(k.ID), row)
	if !k.LastUsedAt.IsZero() {
		from := ""
		if k.LastUsedFrom.IsValid() {
			from = k.LastUsedFrom.String()
		}
		set = set.FieldValue(useField(k.ID), decimal(k.LastUsedAt.UnixMicro())+" "+from)
	}
	r.send(set.Build(), r.setToken(b, &k.Key, k.Hash))
	if k.Live(r.Now()) {
		r.send(b.Zadd().Key(r.liveKeysKey()).ScoreMember().ScoreMember(expiryScore(&k.Key), k.ID).Build())
	}
	return nil
}

// addCount adds to the four counters of a call.
func (r *restore) addCount(c *store.StoredCount) {
	month, day := dateOf(c.Day)
	of := countsOf{r.countsKey(c.Account, c.Key, month), countsExpire(c.Day)}
	if r.counts[of] == nil {
		r.counts[of] = map[string]int64{}
	}
	for _, field := range []string{day + ":" + c.Endpoint, c.Endpoint, day + ":*", "*"} {
		r.counts[of][field] += c.Used
		r.size += len(field)
	}
}

// addCall keeps a call until all of its account are known. A file can have more
// calls than are kept.
func (r *restore) addCall(call store.Record) {
	if len(call.Path) > restorePath {
		call.Path = strings.Clone(strings.ToValidUTF8(call.Path[:restorePath], ""))
	}
	r.calls = append(r.calls, call)
	if len(r.calls) > 2*store.MaxRecent {
		r.dropCalls()
	}
}

// dropCalls sorts the calls, the newest first, and drops those that are too
// many.
func (r *restore) dropCalls() {
	slices.SortStableFunc(r.calls, func(a, b store.Record) int { return b.At.Compare(a.At) })
	r.calls = slices.Delete(r.calls, min(len(r.calls), store.MaxRecent), len(r.calls))
}

// addCalls writes the recent calls of an account, the newest first.
func (r *restore) addCalls(b rueidis.Builder) error {
	r.dropCalls()
	rows := make([]string, len(r.calls))
	for i := range rows {
		var err error
		if rows[i], err = encodeRecord(&r.calls[i]); err != nil {
			return err
		}
	}
	key := r.recentKey(r.calls[0].Account)
	r.calls = r.calls[:0]
	r.send(b.Rpush().Key(key).Element(rows...).Build(), b.Expire().Key(key).Seconds(int64(store.RecentFor/time.Second)).Build())
	return nil
}

func (r *restore) addRefused(b rueidis.Builder, row *store.Refused) {
	keys, member := r.refusedKeys(row.Day), refusedRow(*row)
	r.send(b.Zadd().Key(keys[0]).ScoreMember().ScoreMember(0, member).Build(), b.Hincrby().Key(keys[1]).Field(member).Increment(row.Calls).Build())
	for _, key := range keys {
		r.send(b.Expireat().Key(key).Timestamp(refusedExpire(row.Day)).Build())
	}
}

// addEntry keeps the id of an entry.
func (r *restore) addEntry(b rueidis.Builder, e *store.Entry) error {
	row, err := encodeEntry(e)
	if err != nil {
		return err
	}
	r.send(b.Xadd().Key(r.auditKey()).Id(e.ID.String()).FieldValue().FieldValue("e", row).Build())
	return nil
}

func (r *restore) addEvent(b rueidis.Builder, e *store.Event) error {
	r.known = max(r.known, knownUntil(e)/1000+1)
	r.send(b.Zadd().Key(r.knownKey()).ScoreMember().ScoreMember(float64(knownUntil(e)), e.ID).Build(),
		b.Expireat().Key(r.knownKey()).Timestamp(r.known).Build())
	if !e.Queued {
		return nil
	}
	row, err := encodeEvent(e)
	if err != nil {
		return err
	}
	due := e.Due
	if due.IsZero() {
		due = e.At
	}
	keys := r.queueKeys()
	r.send(b.Hset().Key(keys[0]).FieldValue().FieldValue(e.ID, row).Build(),
		b.Zadd().Key(keys[1]).ScoreMember().ScoreMember(float64(due.UnixMicro()), e.ID).Build(),
		b.Zadd().Key(keys[2]).ScoreMember().ScoreMember(float64(e.At.UnixMicro()), e.ID).Build(),
		b.Hset().Key(keys[3]).FieldValue().FieldValue(e.ID, decimal(int64(e.Attempts))).Build())
	return nil
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
	for of, fields := range r.counts {
		for field, n := range fields {
			r.send(l.B().Hincrby().Key(of.key).Field(field).Increment(n).Build())
		}
		r.send(l.B().Arbitrary("EXPIREAT").Keys(of.key).Args(of.expire).Build())
	}
	clear(r.counts)
	commands := r.commands
	r.commands, r.size = nil, 0
	for batch := range slices.Chunk(commands, restoreBatch) {
		if err := r.sendBatch(ctx, l, batch); err != nil {
			return err
		}
	}
	return nil
}

func (r *restore) sendBatch(ctx context.Context, l *link, batch []rueidis.Completed) error {
	ctx, cancel := context.WithTimeout(ctx, restoreWait)
	defer cancel()
	errs := make([]error, len(batch))
	for i, result := range l.DoMulti(ctx, batch...) {
		if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
			errs[i] = r.client.hide(err)
		}
	}
	// One error is enough: the others often have the same cause.
	if err := cmp.Or(errs...); err != nil {
		return unavailable(err)
	}
	return nil
}
