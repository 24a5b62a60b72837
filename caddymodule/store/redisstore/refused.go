package redisstore

import (
	"cmp"
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
			if err := s.runWithin(ctx, refusedScript, s.refusedKeys(day), args); err != nil {
				return err
			}
		}
	}
	return nil
}

// runWithin runs a script whose reply does not matter.
func (s *Store) runWithin(ctx context.Context, script *script, keys, args []string) error {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	_, err := s.client.run(ctx, script, keys, args)
	return err
}

// refusedPart is a part of the rows of a day.
type refusedPart struct {
	day      calendar.Day
	min, max string
	rows     int64
}

// ListRefused implements store.Refusals.
func (s *Store) ListRefused(ctx context.Context, account string, first, last calendar.Day, after store.Refused, limit int) ([]store.Refused, error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	parts := s.refusedParts(account, first, last, after)
	if len(parts) == 0 || limit <= 0 {
		return nil, nil
	}
	counts, err := s.client.doMulti(ctx, len(parts), func(l *link, i int) rueidis.Completed {
		return l.B().Zlexcount().Key(s.refusedKeys(parts[i].day)[0]).Min(parts[i].min).Max(parts[i].max).Build()
	})
	if err != nil {
		return nil, err
	}
	var filled []refusedPart
	left := int64(limit)
	for i, reply := range counts {
		n, err := reply.AsInt64()
		if err != nil {
			return nil, damaged("refused calls", err)
		}
		if parts[i].rows = min(n, left); parts[i].rows > 0 {
			filled = append(filled, parts[i])
			left -= parts[i].rows
		}
	}
	return s.refusedOf(ctx, filled)
}

// refusedParts returns what to read of each day from first to last.
func (s *Store) refusedParts(account string, first, last calendar.Day, after store.Refused) (parts []refusedPart) {
	today := calendar.UTCDay(s.Now())
	first, last = max(first, after.Day, today-store.ReportsFor-1), min(last, today+31)
	for day := first; day <= last; day++ {
		part := refusedPart{day: day, min: "-", max: "+"}
		if account != "" {
			part.min, part.max = "["+account+"\x00", "("+account+"\x01"
		}
		if day == after.Day {
			if account != "" && after.Account > account {
				continue
			}
			if account == "" || after.Account == account {
				part.min = "(" + refusedRow(after)
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// refusedOf reads the rows of parts.
func (s *Store) refusedOf(ctx context.Context, parts []refusedPart) (list []store.Refused, err error) {
	if len(parts) == 0 {
		return nil, nil
	}
	replies, err := s.client.doMulti(ctx, len(parts), func(l *link, i int) rueidis.Completed {
		p := parts[i]
		return l.B().Zrangebylex().Key(s.refusedKeys(p.day)[0]).Min(p.min).Max(p.max).Limit(0, p.rows).Build()
	})
	if err != nil {
		return nil, err
	}
	rows := make([][]string, len(parts))
	for i, reply := range replies {
		if rows[i], err = reply.AsStrSlice(); err != nil || len(rows[i]) == 0 {
			return nil, damaged("refused calls", cmp.Or(err, errShort))
		}
	}
	replies, err = s.client.doMulti(ctx, len(parts), func(l *link, i int) rueidis.Completed {
		return l.B().Hmget().Key(s.refusedKeys(parts[i].day)[1]).Field(rows[i]...).Build()
	})
	if err != nil {
		return nil, err
	}
	for i, reply := range replies {
		calls, err := reply.AsIntSlice()
		if err != nil || len(calls) != len(rows[i]) {
			return nil, damaged("refused calls", cmp.Or(err, errShort))
		}
		for n, row := range rows[i] {
			fields := strings.Split(row, "\x00")
			if len(fields) != 3 {
				return nil, damaged("refused calls", errShort)
			}
			list = append(list, store.Refused{Day: parts[i].day, Account: fields[0], Endpoint: fields[1], Code: fields[2], Calls: calls[n]})
		}
	}
	return list, nil
}
