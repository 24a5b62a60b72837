package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// countsKey is the hash of the counts of an account in a month, or of a key
// unless holder is empty.
func (s *Store) countsKey(account, holder, month string) string {
	key := s.prefix + ":{" + account + "}:u:" + month
	if holder != "" {
		key += ":" + holder
	}
	return key
}

// countsExpire is when the counts of the month of a day are deleted, in seconds
// since 1970: store.CountsFor days after the month.
func countsExpire(day calendar.Day) string {
	_, last := day.Month()
	return decimal((last + 1 + store.CountsFor).UTC().Unix())
}

// allMonths are the first days of the months that can have counts.
func (s *Store) allMonths() []calendar.Day {
	today := calendar.UTCDay(s.Now())
	return monthsOf(today-store.CountsFor-31, today+31)
}

// holders are the account ("") and those of its keys that may have counts.
func (l *loaded) holders() []string {
	list := []string{""}
	for _, k := range l.ring {
		list = append(list, k.CountsAs())
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Counts implements store.Usage.
func (s *Store) Counts(ctx context.Context, account, key string, first, last calendar.Day) (list []store.Count, err error) {
	months := monthsOf(first, last)
	keys := make([]string, len(months))
	for i, month := range months {
		keys[i] = s.countsKey(account, key, monthOf(month))
	}
	found, err := s.hashes(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, fields := range found {
		list = appendCounts(list, months[i], fields, first, last)
	}
	return list, nil
}

// hashes reads hashes of counts.
func (s *Store) hashes(ctx context.Context, keys []string) ([]map[string]string, error) {
	replies, err := s.client.doMulti(ctx, len(keys), func(l *link, i int) rueidis.Completed { return l.B().Hgetall().Key(keys[i]).Build() })
	if err != nil {
		return nil, err
	}
	list := make([]map[string]string, len(keys))
	for i, reply := range replies {
		if list[i], err = reply.AsStrMap(); err != nil {
			return nil, damaged(keys[i], err)
		}
	}
	return list, nil
}

// monthsOf are the first days of the months of the days from first to last.
func monthsOf(first, last calendar.Day) (months []calendar.Day) {
	for day, _ := first.Month(); day <= last; {
		months = append(months, day)
		_, end := day.Month()
		day = end + 1
	}
	return months
}

// appendCounts appends the counts of days of a month.
func appendCounts(list []store.Count, month calendar.Day, fields map[string]string, first, last calendar.Day) []store.Count {
	for field, value := range fields {
		ofMonth, endpoint, isDay := strings.Cut(field, ":")
		n, err := strconv.Atoi(ofMonth)
		used, err2 := strconv.ParseInt(value, 10, 64)
		day := month + calendar.Day(n-1)
		if isDay && endpoint != "*" && errors.Join(err, err2) == nil && used > 0 && first <= day && day <= last {
			list = append(list, store.Count{Day: day, Endpoint: endpoint, Used: used})
		}
	}
	return list
}

// ResetCounts implements store.Usage.
func (s *Store) ResetCounts(ctx context.Context, account, endpoint string, day calendar.Day) error {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	l, err := s.load(ctx, account)
	if err != nil {
		return err
	}
	month, ofMonth := dateOf(day)
	keys := []string{s.accountKey(account)}
	for _, holder := range l.holders() {
		keys = append(keys, s.countsKey(account, holder, month))
	}
	_, err = s.client.runWrite(ctx, resetScript, keys, []string{ofMonth, endpoint, countsExpire(day)})
	return err
}

// Recent implements store.Usage.
func (s *Store) Recent(ctx context.Context, account string, now time.Time) (list []store.Record, err error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	if err := s.recent.flushOf(ctx, account); err != nil {
		return nil, err
	}
	rows, err := ask(ctx, s.client, "recent calls of "+account, func(b rueidis.Builder) rueidis.Completed {
		return b.Lrange().Key(s.recentKey(account)).Start(0).Stop(-1).Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		record, err := decodeRecord(account, row)
		if err != nil {
			return nil, err
		}
		if !record.At.Before(now.Add(-store.RecentFor)) {
			list = append(list, record)
		}
	}
	// Several gates add calls, not in the order of their times.
	return store.LastCalls(list), nil
}

// Record implements store.Usage.
func (s *Store) Record(record store.Record) { s.recent.add(record) }
