package redisstore

import (
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

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
		set = set.FieldValue(useField(k.ID), encodeUse(&k.Key))
	}
	r.send(set.Build(), r.setToken(b, k))
	if k.Live(r.Now()) {
		r.send(b.Zadd().Key(r.liveKeysKey()).ScoreMember().ScoreMember(expiryScore(&k.Key), k.ID).Build())
	}
	return nil
}

// setToken writes which key a token belongs to. A key that has ended does not
// replace a live one of another account with the same token.
func (r *restore) setToken(b rueidis.Builder, k *store.StoredKey) rueidis.Completed {
	command := b.Arbitrary("SET").Keys(r.tokenKey(k.Hash)).Args(hint{k.Account, k.ID}.value())
	if !k.ExpiresAt.IsZero() {
		command = command.Args("PXAT", decimal(k.ExpiresAt.Add(expiredFor).UnixMilli()))
	}
	if !k.Live(r.Now()) {
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
	r.send(b.Arbitrary("EXPIREAT").Keys(key).Args(countsExpire(c.Day)).Build())
}

// addCall keeps a call until all of its account are known. A file can have more
// calls than are kept.
func (r *restore) addCall(call store.Record) {
	call.Path = strings.Clone(store.CutPath(call.Path))
	r.calls = append(r.calls, call)
	if len(r.calls) > 2*store.MaxRecent {
		r.calls = store.LastCalls(r.calls)
	}
}

// addCalls writes the recent calls of an account, the newest first.
func (r *restore) addCalls(b rueidis.Builder) error {
	r.calls = store.LastCalls(r.calls)
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
	row, err := encode(utcEvent(*e))
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
