package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

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

// Counts implements book.Engine.
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
	replies, err := s.client.doMulti(ctx, len(keys), func(b rueidis.Builder, i int) rueidis.Completed { return b.Hgetall().Key(keys[i]).Build() })
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

// CountsOfAccounts implements book.Engine.
func (s *Store) CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) (list []store.AccountCount, err error) {
	for _, month := range monthsOf(first, last) {
		for some := range slices.Chunk(accounts, accountPage) {
			keys := make([]string, len(some))
			for i, account := range some {
				keys[i] = s.countsKey(account, "", monthOf(month))
			}
			found, err := s.hashes(ctx, keys)
			if err != nil {
				return nil, err
			}
			for i, fields := range found {
				for _, c := range appendCounts(nil, month, fields, first, last) {
					list = append(list, store.AccountCount{Account: some[i], Count: c})
				}
			}
		}
	}
	return list, nil
}

// ResetCounts implements book.Engine.
func (s *Store) ResetCounts(ctx context.Context, account string, keys []string, endpoint string, day calendar.Day) error {
	month, ofMonth := dateOf(day)
	names := []string{s.accountKey(account), s.countsKey(account, "", month)}
	for _, key := range keys {
		names = append(names, s.countsKey(account, key, month))
	}
	_, err := s.client.runWrite(ctx, resetScript, names, []string{ofMonth, endpoint, countsExpire(day)})
	return err
}
