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
func countsExpire(day calendar.Day) int64 {
	_, last := day.Month()
	return (last + 1 + store.CountsFor).UTC().Unix()
}

// allMonths are the first days of the months that can have counts.
func (s *Store) allMonths() []calendar.Day {
	today := calendar.UTCDay(s.Now())
	return monthsOf(today-store.CountsFor-31, today+31)
}

// Counts implements book.Engine.
func (s *Store) Counts(ctx context.Context, account, key string, first, last calendar.Day) (list []store.Count, err error) {
	err = s.counts(ctx, []string{account}, key, first, last, func(_ string, c store.Count) { list = append(list, c) })
	return list, err
}

// CountsOfAccounts implements book.Engine.
func (s *Store) CountsOfAccounts(ctx context.Context, accounts []string, first, last calendar.Day) (list []store.AccountCount, err error) {
	err = s.counts(ctx, accounts, "", first, last, func(account string, c store.Count) {
		list = append(list, store.AccountCount{Account: account, Count: c})
	})
	return list, err
}

// counts calls add with the counts of accounts, or of a key of an account.
func (s *Store) counts(ctx context.Context, accounts []string, key string, first, last calendar.Day, add func(account string, c store.Count)) error {
	type hash struct {
		account string
		month   calendar.Day
	}
	var hashes []hash
	for _, month := range monthsOf(first, last) {
		for _, account := range accounts {
			hashes = append(hashes, hash{account, month})
		}
	}
	for some := range slices.Chunk(hashes, accountPage) {
		replies, err := s.client.doMulti(ctx, len(some), func(b rueidis.Builder, i int) rueidis.Completed {
			return b.Hgetall().Key(s.countsKey(some[i].account, key, monthOf(some[i].month))).Build()
		})
		if err != nil {
			return err
		}
		for i, reply := range replies {
			if err := readCounts(reply, some[i].month, first, last, func(c store.Count) { add(some[i].account, c) }); err != nil {
				return err
			}
		}
	}
	return nil
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

// readCounts calls add with the counts of days in the hash of a month.
func readCounts(hash rueidis.RedisMessage, month, first, last calendar.Day, add func(store.Count)) error {
	fields, err := hash.AsStrMap()
	if err != nil {
		return damaged("counts", err)
	}
	for field, value := range fields {
		ofMonth, endpoint, isDay := strings.Cut(field, ":")
		n, err := strconv.Atoi(ofMonth)
		used, err2 := strconv.ParseInt(value, 10, 64)
		day := month + calendar.Day(n-1)
		if isDay && endpoint != "*" && errors.Join(err, err2) == nil && used > 0 && first <= day && day <= last {
			add(store.Count{Day: day, Endpoint: endpoint, Used: used})
		}
	}
	return nil
}

// ResetCounts implements book.Engine.
func (s *Store) ResetCounts(ctx context.Context, account string, keys []string, endpoint string, day calendar.Day) error {
	month, ofMonth := dateOf(day)
	names := []string{s.accountKey(account), s.countsKey(account, "", month)}
	for _, key := range keys {
		names = append(names, s.countsKey(account, key, month))
	}
	_, err := s.client.runWrite(ctx, resetScript, names, []string{ofMonth, endpoint, decimal(countsExpire(day))})
	return err
}
