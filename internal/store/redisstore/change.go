package redisstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// changeWithin is how long after its first claim or mark a change can be made.
// It is longer than each timeout, and shorter than claimedFor and orphanedAfter,
// after which another gate may undo the claim or the mark.
const changeWithin = 15 * time.Second

// The results of changeScript.
const (
	outdated = iota
	written
	otherRow
	tooLate
)

var (
	// errOutdated says that another gate changed an account after it was
	// read.
	errOutdated = errors.New("the account was changed at the same time")

	// errTooLate says that a change came too late. It is tried again, too.
	errTooLate = fmt.Errorf("%w, or the change came too late: the server is slow, or the clocks of the servers differ", errOutdated)
)

// newNumber returns a random number for a handle or a version. A counter would
// repeat numbers after a deletion, and after lost writes.
func newNumber() string { return strconv.FormatUint(rand.Uint64()|1, 10) }

// Change implements book.Engine. It calls edit for one account at a time.
func (s *Store) Change(ctx context.Context, at time.Time, ids []string, edit func(int, *book.Account) error) []error {
	errs := make([]error, len(ids))
	var editing sync.Mutex
	var group errgroup.Group
	group.SetLimit(writers)
	for i, id := range ids {
		group.Go(func() error {
			errs[i] = s.change(ctx, at, id, func(a *book.Account) error {
				editing.Lock()
				defer editing.Unlock()
				return edit(i, a)
			})
			return nil
		})
	}
	_ = group.Wait() // each account has an error of its own
	return errs
}

// change changes one account. It begins again after a conflict.
func (s *Store) change(ctx context.Context, at time.Time, id string, edit func(*book.Account) error) error {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	for {
		err := s.newChange(at, id, edit).run(ctx)
		if !errors.Is(err, errOutdated) {
			return err
		}
		if !sleep(ctx, rand.N(5*time.Millisecond)) {
			return unavailable(err)
		}
	}
}

// change is one try to change an account.
type change struct {
	*Store
	at   time.Time
	id   string
	edit func(*book.Account) error

	before *document // nil for none
	step   *book.Step
	handle string
	// until is the server time until which the change may be made, in
	// microseconds, or 0 for no end.
	until  int64
	mark   string                 // of the account in the set of pending ones
	made   int64                  // the server time of the change
	queued []rueidis.RedisMessage // the first entries of the queue
}

func (s *Store) newChange(at time.Time, id string, edit func(*book.Account) error) *change {
	return &change{Store: s, at: at, id: id, edit: edit}
}

// steps are the steps of a change. write makes it. What is written before means
// nothing without it, and what follows is repeated by others, or only needed for
// totals and to save memory. So a gate can end between two steps.
func (c *change) steps() []func(context.Context) error {
	return []func(context.Context) error{c.read, c.claim, c.pend, c.list, c.write, c.publish, c.settle}
}

func (c *change) run(ctx context.Context) error {
	for _, step := range c.steps() {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read reads the document and lets edit change it.
func (c *change) read(ctx context.Context) (err error) {
	if c.before, err = c.Store.read(ctx, c.id); err != nil {
		return err
	}
	var before *book.Account
	if c.before != nil {
		before, c.handle = c.before.Account, c.before.handle
	}
	if c.step, err = book.NewStep(c.id, before, c.at, c.Now(), c.edit); err != nil && before == nil {
		return cmp.Or(c.confirmDeleted(ctx), err)
	}
	return err
}

// confirmDeleted waits until the replicas have what was written before: an earlier
// try may have deleted the account, but not on enough replicas.
func (c *change) confirmDeleted(ctx context.Context) error {
	if c.client.options.WaitReplicas == 0 {
		return nil
	}
	_, err := c.client.runWrite(ctx, pingScript, []string{c.prefix + ":{" + c.id + "}:check"}, nil)
	return err
}

// limitTime limits the time of the change, which began at a server time.
func (c *change) limitTime(at int64) {
	until := at + changeWithin.Microseconds()
	if c.until == 0 || until < c.until {
		c.until = until
	}
}

// isCreation tells whether the change creates the account.
func (c *change) isCreation() bool { return c.before == nil && c.step.After.Exists }

// list adds a new account to the list of all accounts. It comes before the
// document, so that no account is missing in the list.
func (c *change) list(ctx context.Context) error {
	if !c.isCreation() {
		return nil
	}
	c.handle = newNumber()
	ctx, cancel := c.client.within(ctx)
	defer cancel()
	_, err := c.client.write(ctx, func(to rueidis.CoreClient) rueidis.RedisResult {
		return to.Do(ctx, to.B().Zadd().Key(c.accountsKey()).ScoreMember().ScoreMember(0, listed(c.id, c.handle)).Build())
	})
	return err
}

// unlist removes what list added. It must know that the change is not made.
func (c *change) unlist(ctx context.Context) {
	if c.before != nil || c.handle == "" {
		return
	}
	_, err := c.client.one(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zrem().Key(c.accountsKey()).Member(listed(c.id, c.handle)).Build()
	})
	c.warn("removing an account that was not created from the list", err)
}

// write writes the document, rows and entries of the log.
func (c *change) write(ctx context.Context) error {
	if c.step.IsNothing() && len(c.step.After.Log)+len(c.step.After.Rows) == 0 {
		return c.confirmDeleted(ctx)
	}
	keys, args := c.request()
	// From here on, no grant that is cached already is used, also if the reply
	// is lost. The second number is for grants that are read until then.
	epoch := c.epoch(c.id)
	epoch.Add(1)
	defer epoch.Add(1)
	reply, err := c.client.runWrite(ctx, changeScript, keys, args)
	if err != nil {
		return err
	}
	r := reader{reply: reply}
	result := r.int()
	c.made, c.queued = r.int(), r.reply
	if r.err != nil {
		return damaged("reply", r.err)
	}
	if result != written {
		c.unlist(ctx)
	}
	switch result {
	case outdated:
		return errOutdated
	case tooLate:
		return errTooLate
	case otherRow:
		return book.ErrConflict
	}
	return nil
}

// request returns the keys and the arguments of changeScript.
func (c *change) request() (keys, args []string) {
	after := c.step.After
	space := c.spaceKeys(book.Space{Account: c.id})
	keys = append(space, c.accountKey(c.id), c.queueKey(c.id))
	version, fields := "", c.fields()
	if c.before != nil {
		version = c.before.version
	}
	months, expiries := c.allMonths(), []string(nil)
	addCounts := func(holders ...string) {
		for _, holder := range holders {
			for _, month := range months {
				keys = append(keys, c.countsKey(c.id, holder, monthOf(month)))
			}
		}
	}
	if c.isCreation() {
		// A closed account may have had the id. Its counts, the first three,
		// move to the others: see store.AfterClosing.
		addCounts("", store.Credited, store.OverageKey, store.Closed, store.ClosedCredited, store.ClosedOverage)
		for _, month := range months {
			expiries = append(expiries, decimal(countsExpire(month)))
		}
	}
	months = append(months, firstOf(store.TotalDay))
	addCounts(after.Retired...)
	if c.step.IsDeletion() {
		keys = append(keys, c.accountKey(c.id), c.countsKey(c.id, "", monthOf(store.TotalDay)))
		addCounts(append(c.step.Before.Counted(), store.CallsKey)...)
	}
	args = append([]string{version, decimal(c.until), strconv.Itoa(len(expiries))}, expiries...)
	args = append(append(args, strconv.Itoa(len(fields)/2)), fields...)
	args = append(args, strconv.Itoa(len(after.Rows)))
	args = appendWrites(args, after.Rows)
	for _, l := range after.Log {
		args = append(args, queued(l))
	}
	return keys, args
}

// fields are the fields of the document that differ, and their values. There is
// always a new version, so that an unchanged document is written as well, and is
// durable.
func (c *change) fields() []string {
	if !c.step.After.Exists {
		return nil
	}
	fields := []string{"i", c.handle, "v", newNumber()}
	var before book.Parts
	if c.before != nil {
		before = c.before.parts
	}
	after := c.step.After.Encode()
	for _, part := range []struct {
		field      string
		old, value []byte
	}{{"a", before.Account, after.Account}, {"k", before.Keys, after.Keys}, {"l", before.Logins, after.Logins}} {
		if !bytes.Equal(part.old, part.value) {
			fields = append(fields, part.field, string(part.value))
		}
	}
	return fields
}

// settle writes what only totals need, and deletes what means nothing any more.
// What is left after an error means nothing either, so the error is only logged.
func (c *change) settle(ctx context.Context) error {
	var commands []func(rueidis.Builder) rueidis.Completed
	add := func(command func(rueidis.Builder) rueidis.Completed) { commands = append(commands, command) }
	for _, k := range c.step.Put {
		add(func(b rueidis.Builder) rueidis.Completed { return c.countKey(b, k) })
	}
	for _, k := range c.step.Ended {
		add(func(b rueidis.Builder) rueidis.Completed { return b.Zrem().Key(c.liveKeysKey()).Member(k.ID).Build() })
	}
	for _, k := range c.step.Before.Keys {
		if c.step.After.Find(k.ID) != nil {
			continue
		}
		for _, key := range []string{c.tokenKey(k.Hash), c.idKey(k.ID)} {
			// Not by its hash: the server may not know the script.
			add(func(b rueidis.Builder) rueidis.Completed {
				return forgetScript.byText(b, []string{key}, []string{tokenEntry{account: c.id, key: k.ID}.of(), decimal(c.made)})
			})
		}
	}
	if len(commands) > 0 {
		add(func(b rueidis.Builder) rueidis.Completed {
			return b.Zremrangebyscore().Key(c.liveKeysKey()).Min("-inf").Max(decimal(c.Now().UnixMilli())).Build()
		})
	}
	if c.step.IsDeletion() {
		add(func(b rueidis.Builder) rueidis.Completed {
			return b.Zrem().Key(c.accountsKey()).Member(listed(c.id, c.handle)).Build()
		})
	}
	_, err := c.client.doMulti(ctx, len(commands), func(b rueidis.Builder, i int) rueidis.Completed { return commands[i](b) })
	c.warn("deleting what is left of a change", err)
	return nil
}

// countKey adds a key to the set of live keys, which Totals counts.
func (s *Store) countKey(b rueidis.Builder, k *book.Key) rueidis.Completed {
	expires := math.Inf(1)
	if !k.ExpiresAt.IsZero() {
		expires = float64(k.ExpiresAt.UnixMilli())
	}
	return b.Zadd().Key(s.liveKeysKey()).ScoreMember().ScoreMember(expires, k.ID).Build()
}
