package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
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
func countsExpire(day calendar.Day) int64 {
	_, last := day.Month()
	return (last + 1 + store.CountsFor).UTC().Unix()
}

// firstOf is the first day of the month of a day.
func firstOf(day calendar.Day) calendar.Day {
	first, _ := day.Month()
	return first
}

// allMonths are the first days of the months that can have counts, besides that of
// totals.
func (s *Store) allMonths() []calendar.Day {
	today := calendar.UTCDay(s.Now())
	return monthsOf(today-store.CountsFor-31, today+31)
}

// Counts implements book.Engine.
func (s *Store) Counts(ctx context.Context, account, key string, first, last calendar.Day) (list []store.Count, err error) {
	stored, err := s.counts(ctx, []string{account}, []string{key}, first, last)
	for _, c := range stored {
		list = append(list, c.Count)
	}
	return list, err
}

// CountsOfAccounts implements book.Engine.
func (s *Store) CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) ([]store.StoredCount, error) {
	return s.counts(ctx, accounts, store.OwnCounts, first, last)
}

// counts returns the counts of holders of each account.
func (s *Store) counts(ctx context.Context, accounts, holders []string, first, last calendar.Day) (list []store.StoredCount, err error) {
	var hashes []store.StoredCount // with the first day of a month
	for _, month := range monthsOf(first, last) {
		for _, account := range accounts {
			for _, holder := range holders {
				hashes = append(hashes, store.StoredCount{Account: account, Key: holder, Count: store.Count{Day: month}})
			}
		}
	}
	for some := range slices.Chunk(hashes, accountPage) {
		replies, err := s.client.doMulti(ctx, len(some), func(b rueidis.Builder, i int) rueidis.Completed {
			return b.Hgetall().Key(s.countsKey(some[i].Account, some[i].Key, monthOf(some[i].Day))).Build()
		})
		if err != nil {
			return nil, err
		}
		for i, reply := range replies {
			if list, err = appendCounts(list, reply, some[i], first, last); err != nil {
				return nil, err
			}
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

// appendCounts appends the counts of days in a hash. of has its account, its
// holder and the first day of its month.
func appendCounts(list []store.StoredCount, hash rueidis.RedisMessage, of store.StoredCount, first, last calendar.Day) ([]store.StoredCount, error) {
	fields, err := hash.AsStrMap()
	if err != nil {
		return nil, damaged("counts", err)
	}
	for field, value := range fields {
		ofMonth, endpoint, isDay := strings.Cut(field, ":")
		n, err := strconv.Atoi(ofMonth)
		used, err2 := strconv.ParseInt(value, 10, 64)
		day := of.Day + calendar.Day(n-1)
		if isDay && endpoint != "*" && errors.Join(err, err2) == nil && used > 0 && first <= day && day <= last {
			list = append(list, store.StoredCount{Account: of.Account, Key: of.Key, Count: store.Count{Day: day, Endpoint: endpoint, Used: used}})
		}
	}
	return list, nil
}

// Credit implements book.Engine.
func (s *Store) Credit(ctx context.Context, account string, keys []string, day calendar.Day, endpoint string, total int64) error {
	month, ofMonth := dateOf(day)
	var names, totals []string
	for i, holder := range append([]string{store.Credited, store.Closed, store.ClosedCredited, ""}, keys...) {
		names = append(names, s.countsKey(account, holder, month))
		if i > 2 {
			totals = append(totals, s.countsKey(account, holder, monthOf(store.TotalDay)))
		}
	}
	names = append(names, totals...)
	_, err := s.client.runWrite(ctx, creditScript, names, []string{ofMonth, endpoint, decimal(total), decimal(countsExpire(day))})
	return err
}
