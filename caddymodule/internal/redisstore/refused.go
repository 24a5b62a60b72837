package redisstore

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// maxRefused is how many rows one script adds.
const maxRefused = 500

// refusedKeys are the rows of a day in order, and their calls.
func (s *Store) refusedKeys(day calendar.Day) []string {
	month, ofMonth := dateOf(day)
	key := s.prefix + ":refused:{" + month + ofMonth + "}"
	return []string{key + ":i", key + ":n"}
}

// refusedRow returns a row as it is stored. Since the separator is less than all
// characters, rows have the order of store.Refused.
func refusedRow(r store.Refused) string { return r.Account + "\x00" + r.Endpoint + "\x00" + r.Code }

// refusedExpire is when the rows of a day are deleted, in seconds since 1970.
func refusedExpire(day calendar.Day) int64 {
	return (day + 1 + store.ReportsFor).UTC().Unix()
}

// AddRefused implements store.Refusals.
func (s *Store) AddRefused(ctx context.Context, rows []store.Refused) error {
	days := map[calendar.Day][]string{}
	for _, r := range rows {
		days[r.Day] = append(days[r.Day], refusedRow(r), decimal(r.Calls))
	}
	for day, args := range days {
		for chunk := range slices.Chunk(args, 2*maxRefused) {
			args := append([]string{decimal(refusedExpire(day))}, chunk...)
			if _, err := s.client.runWithin(ctx, refusedScript, s.refusedKeys(day), args); err != nil {
				return err
			}
		}
	}
	return nil
}

// ListRefused implements store.Refusals. It reads one day after the other.
func (s *Store) ListRefused(ctx context.Context, account string, first, last calendar.Day, after store.Refused, limit int) (list []store.Refused, err error) {
	today := calendar.UTCDay(s.Now())
	first, last = max(first, after.Day, today-store.ReportsFor-1), min(last, today+31)
	for day := first; day <= last && len(list) < limit; day++ {
		least, most := "-", "+"
		if account != "" {
			least, most = "["+account+"\x00", "("+account+"\x01"
		}
		if row := refusedRow(after); day == after.Day && row >= account+"\x00" {
			least = "(" + row
		}
		if list, err = s.appendRefused(ctx, list, day, least, most, limit-len(list)); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// appendRefused appends up to limit rows of a day.
func (s *Store) appendRefused(ctx context.Context, list []store.Refused, day calendar.Day, least, most string, limit int) ([]store.Refused, error) {
	keys := s.refusedKeys(day)
	rows, err := ask(ctx, s.client, "refused calls", func(b rueidis.Builder) rueidis.Completed {
		return b.Zrangebylex().Key(keys[0]).Min(least).Max(most).Limit(0, int64(limit)).Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
	if err != nil || len(rows) == 0 {
		return list, err
	}
	calls, err := ask(ctx, s.client, "refused calls", func(b rueidis.Builder) rueidis.Completed {
		return b.Hmget().Key(keys[1]).Field(rows...).Build()
	}, (*rueidis.RedisMessage).AsIntSlice)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		fields := strings.Split(row, "\x00")
		if len(fields) != 3 || len(calls) != len(rows) {
			return nil, damaged("refused calls", errShort)
		}
		list = append(list, store.Refused{Day: day, Account: fields[0], Endpoint: fields[1], Code: fields[2], Calls: calls[i]})
	}
	return list, nil
}
