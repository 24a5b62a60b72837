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

// refusedDay has the rows of a day that were asked for.
type refusedDay struct {
	day         calendar.Day
	keys        []string // see refusedKeys
	least, most string   // the bounds of ZLEXCOUNT and ZRANGEBYLEX
	rows        []string
}

// ListRefused implements store.Refusals. It reads all days in three round
// trips. The first one counts, so that the second one reads only the days that
// fill the page.
func (s *Store) ListRefused(ctx context.Context, account string, first, last calendar.Day, after store.Refused, limit int) ([]store.Refused, error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	today := calendar.UTCDay(s.Now())
	first, last = max(first, after.Day, today-store.ReportsFor-1), min(last, today+31)
	var days []refusedDay
	for day := first; day <= last; day++ {
		d := refusedDay{day: day, keys: s.refusedKeys(day), least: "-", most: "+"}
		if account != "" {
			d.least, d.most = "["+account+"\x00", "("+account+"\x01"
		}
		if row := refusedRow(after); day == after.Day && row >= account+"\x00" {
			d.least = "(" + row
		}
		days = append(days, d)
	}
	counts, err := askDays(ctx, s.client, days, func(b rueidis.Builder, d *refusedDay) rueidis.Completed {
		return b.Zlexcount().Key(d.keys[0]).Min(d.least).Max(d.most).Build()
	}, (*rueidis.RedisMessage).AsInt64)
	if err != nil {
		return nil, err
	}
	var found []refusedDay
	for i, n := 0, int64(0); i < len(days) && n < int64(limit); i++ {
		if n += counts[i]; counts[i] > 0 {
			found = append(found, days[i])
		}
	}
	rows, err := askDays(ctx, s.client, found, func(b rueidis.Builder, d *refusedDay) rueidis.Completed {
		return b.Zrangebylex().Key(d.keys[0]).Min(d.least).Max(d.most).Limit(0, int64(limit)).Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
	if err != nil {
		return nil, err
	}
	for i := range found {
		found[i].rows = rows[i][:min(limit, len(rows[i]))]
		limit -= len(found[i].rows)
	}
	return s.refusedCalls(ctx, slices.DeleteFunc(found, func(d refusedDay) bool { return len(d.rows) == 0 }))
}

// refusedCalls reads the calls of rows.
func (s *Store) refusedCalls(ctx context.Context, days []refusedDay) (list []store.Refused, err error) {
	calls, err := askDays(ctx, s.client, days, func(b rueidis.Builder, d *refusedDay) rueidis.Completed {
		return b.Hmget().Key(d.keys[1]).Field(d.rows...).Build()
	}, (*rueidis.RedisMessage).AsIntSlice)
	if err != nil {
		return nil, err
	}
	for i, d := range days {
		for j, row := range d.rows {
			fields := strings.Split(row, "\x00")
			if len(fields) != 3 || len(calls[i]) != len(d.rows) {
				return nil, damaged("refused calls", errShort)
			}
			list = append(list, store.Refused{Day: d.day, Account: fields[0], Endpoint: fields[1], Code: fields[2], Calls: calls[i][j]})
		}
	}
	return list, nil
}

// askDays sends a command for each day at once, and reads the replies.
func askDays[T any](
	ctx context.Context, c *client, days []refusedDay, command func(rueidis.Builder, *refusedDay) rueidis.Completed, read func(*rueidis.RedisMessage) (T, error),
) ([]T, error) {
	if len(days) == 0 {
		return nil, nil
	}
	replies, err := c.doMulti(ctx, len(days), func(l *link, i int) rueidis.Completed { return command(l.B(), &days[i]) })
	if err != nil {
		return nil, err
	}
	values := make([]T, len(days))
	for i := range replies {
		if values[i], err = read(&replies[i]); err != nil {
			return nil, damaged("refused calls", err)
		}
	}
	return values, nil
}
