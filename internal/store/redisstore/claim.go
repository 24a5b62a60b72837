package redisstore

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	// expiredFor is how long the entry of an expired token is kept, for
	// clocks that were wrong.
	expiredFor = store.EndedLoginsFor

	// listedFor is how long the entry of the id of an expired key is kept.
	listedFor = store.RevokedFor + expiredFor

	// claimedFor is how long an entry without its key belongs to its
	// account: another gate may be about to write the key.
	claimedFor = time.Minute
)

// tokenEntry says which account and key a token belongs to, or an id of a key.
// It is written before the document, and means nothing without the key.
type tokenEntry struct {
	account, key string
	at           int64 // when it was written, in microseconds of the server
}

// of is the part of an entry that says what it belongs to.
func (e tokenEntry) of() string { return e.account + " " + e.key }

// String returns the entry as the server has it.
func (e tokenEntry) String() string { return e.of() + " " + decimal(e.at) }

func parseTokenEntry(text string) (e tokenEntry, err error) {
	account, rest, found := strings.Cut(text, " ")
	// An id of a key is without spaces in this program, and not in others.
	last := strings.LastIndexByte(rest, ' ')
	if !found || last < 0 {
		return e, damaged("a token", errShort)
	}
	e = tokenEntry{account: account, key: rest[:last]}
	if e.at, err = strconv.ParseInt(rest[last+1:], 10, 64); err != nil {
		return e, damaged("a token", err)
	}
	return e, nil
}

// tokenEntry reads an entry. The error is store.ErrNotFound if there is none.
func (s *Store) tokenEntry(ctx context.Context, key string) (tokenEntry, error) {
	reply, err := s.client.one(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(key).Build() })
	if err != nil {
		return tokenEntry{}, err
	}
	if reply.IsNil() {
		return tokenEntry{}, store.ErrNotFound
	}
	text, err := reply.ToString()
	if err != nil {
		return tokenEntry{}, damaged("a token", err)
	}
	return parseTokenEntry(text)
}

// claimOf returns the call of claimScript for an entry of a key, which is kept
// for some time after the key has expired. old may be replaced.
func claimOf(entry string, k *book.Key, keptFor time.Duration, old string) call {
	return call{[]string{entry}, []string{tokenEntry{account: k.Account, key: k.ID}.of(), expiry(k, keptFor), old}}
}

// expiry is when an entry of a key expires, in milliseconds, empty for never.
func expiry(k *book.Key, later time.Duration) string {
	if k.ExpiresAt.IsZero() {
		return ""
	}
	return decimal(k.ExpiresAt.Add(later).UnixMilli())
}

// claimed is the reply of claimScript.
type claimed struct {
	written bool
	now     int64
	entry   tokenEntry // as it is now
}

func readClaimed(reply []rueidis.RedisMessage) (c claimed, err error) {
	r := reader{reply: reply}
	c.written, c.now = r.int() == 1, r.int()
	text := r.text()
	if r.err != nil {
		return c, damaged("a token", r.err)
	}
	c.entry, err = parseTokenEntry(text)
	return c, err
}

// claim writes which account the tokens belong to that the change makes live, or
// live for longer.
//
// The entry of another account is replaced if its key has ended or the account
// is deleted. Otherwise the error is store.ErrTokenTaken. If the account has no
// such key, another gate may be about to write it, and its entry is replaced
// when it is older than claimedFor. The gate that wrote it does not make its
// change then.
func (c *change) claim(ctx context.Context) error {
	var calls []call
	for _, k := range c.step.Claims {
		calls = append(calls, claimOf(c.tokenKey(k.Hash), k, expiredFor, ""), claimOf(c.idKey(k.ID), k, listedFor, "*"))
	}
	replies, err := c.client.writeMulti(ctx, claimScript, calls)
	if err != nil {
		return err
	}
	for i, reply := range replies {
		got, err := readClaimed(reply)
		if err == nil && !got.written {
			got, err = c.replace(ctx, c.step.Claims[i/2], got)
		}
		if err != nil {
			return err
		}
		c.limitTime(got.now)
	}
	return nil
}

// replace writes which account a token belongs to that has an entry of another
// key.
func (c *change) replace(ctx context.Context, k *book.Key, found claimed) (claimed, error) {
	for {
		old := found.entry
		if old.account != c.id {
			if free, err := c.isFree(ctx, k, found); err != nil || !free {
				return found, cmp.Or(err, store.ErrTokenTaken)
			}
		}
		got, err := c.enter(ctx, k, old)
		if err != nil {
			return got, err
		}
		if got.written {
			if old.account != c.id {
				err = c.outdate(ctx, k, old, got.entry)
			}
			return got, err
		}
		found = got
	}
}

// enter writes the entry of a token if it has none, that of the same key, or
// old.
func (s *Store) enter(ctx context.Context, k *book.Key, old tokenEntry) (claimed, error) {
	call := claimOf(s.tokenKey(k.Hash), k, expiredFor, old.String())
	reply, err := s.client.runWrite(ctx, claimScript, call.keys, call.args)
	if err != nil {
		return claimed{}, err
	}
	return readClaimed(reply)
}

// isFree tells whether the key of an entry has ended or will never be there.
func (c *change) isFree(ctx context.Context, k *book.Key, found claimed) (bool, error) {
	d, err := c.Store.read(ctx, found.entry.account)
	if err != nil {
		return false, err
	}
	if d == nil {
		return true, nil
	}
	old := d.Holding(k.Hash, c.at)
	if old == nil {
		return found.now-found.entry.at > claimedFor.Microseconds(), nil
	}
	return !old.Live(c.at), nil
}

// outdate writes an account with a new version after an entry of it was replaced
// by own, for the key k of another account. Another gate may have read the
// account before, to make a key live longer or to create it again: its write
// fails now. If it was faster, outdate puts the entry back and returns
// store.ErrTokenTaken.
func (c *change) outdate(ctx context.Context, k *book.Key, old, own tokenEntry) error {
	var owner *book.Key
	err := c.Store.change(ctx, c.at, old.account, func(a *book.Account) error {
		if !a.Exists {
			return store.ErrNotFound // a write that read it before fails
		}
		if owner = a.Holding(k.Hash, c.at); owner != nil && owner.Live(c.at) {
			return store.ErrTokenTaken
		}
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrTokenTaken):
		if _, fault := c.enter(ctx, owner, own); fault != nil {
			return fault
		}
	}
	return err
}

// writeMulti runs a script for each call like runWrite. It returns the first
// error.
func (c *client) writeMulti(ctx context.Context, s *script, calls []call) ([][]rueidis.RedisMessage, error) {
	if c.options.WaitReplicas == 0 {
		replies, errs := c.runMulti(ctx, s, calls)
		return replies, errors.Join(errs...)
	}
	replies := make([][]rueidis.RedisMessage, len(calls))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, call := range calls {
		group.Go(func() (err error) {
			replies[i], err = c.runWrite(ctx, s, call.keys, call.args)
			return err
		})
	}
	return replies, group.Wait()
}
