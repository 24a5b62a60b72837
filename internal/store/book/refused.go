package book

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// Refused calls are a space for each day, with a row for each account, endpoint,
// code and reason. The key of a row without a reason ends with the code.

const refusedPrefix = "refused "

func refusedRow(r *store.Refused) string {
	key := r.Account + "\x00" + r.Endpoint + "\x00" + r.Code
	if r.Reason != "" {
		key += "\x00" + r.Reason
	}
	return key
}

// refusedDays are the days that can have rows.
func refusedDays(now time.Time) (first, last calendar.Day) {
	today := calendar.UTCDay(now)
	return today - store.ReportsFor - 1, today + 2
}

// rowsPerCommit is how many rows a commit writes at most.
const rowsPerCommit = 500

// RefusedCalls is a Part of a RefusedSpace: the refused calls, by their rows
// without Calls. Its size is the number of rows.
type RefusedCalls map[store.Refused]int64

// RefusedSpace is the space of the refused calls of a day.
func RefusedSpace(day calendar.Day) Space { return Space{Name: refusedPrefix + day.String()} }

// Size implements Part.
func (c RefusedCalls) Size() int { return len(c) }

// Batch implements Part.
func (c RefusedCalls) Batch(ctx context.Context, e Engine, of Space) (b Batch, rest Part, err error) {
	var rows []store.Refused
	var keys []string
	later := RefusedCalls{}
	for row, calls := range c {
		if len(rows) == rowsPerCommit {
			later[row], rest = calls, later
			continue
		}
		keys = append(keys, refusedRow(&row))
		row.Calls = calls
		rows = append(rows, row)
	}
	found, err := e.GetRows(ctx, of, keys...)
	if err != nil {
		return b, nil, err
	}
	b.Space = of
	for i, row := range found {
		calls := int64(0)
		if row.Value != nil {
			if err := decode(row.Value, &calls); err != nil {
				return b, nil, fmt.Errorf("refused calls: %w", err)
			}
		}
		calls += min(rows[i].Calls, math.MaxInt64-calls)
		b.Writes = append(b.Writes, Write{
			Row:   Row{Key: keys[i], Value: encode(calls), Expires: (rows[i].Day + store.ReportsFor + 1).UTC()},
			Check: true, Old: row.Value,
		})
	}
	return b, rest, nil
}

// ListRefused returns up to limit rows of the days from first to last, both
// included, that are after a row, in ascending order of day, account, endpoint,
// code and reason. The zero Refused is before all rows. With an account, it returns
// the rows of that account only.
func (b *Book) ListRefused(ctx context.Context, account string, first, last calendar.Day, after store.Refused, limit int) (list []store.Refused, err error) {
	oldest, newest := refusedDays(b.now())
	first, last = max(first, after.Day, oldest), min(last, newest)
	var ranges []Range
	for day := first; day <= last; day++ {
		r := Range{Space: RefusedSpace(day)}
		if account != "" {
			r.From, r.To = account+"\x00", account+"\x01"
		}
		if day == after.Day {
			r.From = max(r.From, refusedRow(&after)+"\x00")
		}
		ranges = append(ranges, r)
	}
	found, err := b.Scan(ctx, limit, ranges...)
	if err != nil {
		return nil, err
	}
	for i, rows := range found {
		for _, row := range rows {
			r, err := decodeRefused(first+calendar.Day(i), row)
			if err != nil {
				return nil, err
			}
			list = append(list, r)
		}
	}
	return list, nil
}

func decodeRefused(day calendar.Day, row Row) (r store.Refused, err error) {
	parts := strings.Split(row.Key, "\x00")
	if len(parts) != 3 && len(parts) != 4 {
		return r, fmt.Errorf("refused calls: %w", ErrDamaged)
	}
	r = store.Refused{Day: day, Account: parts[0], Endpoint: parts[1], Code: parts[2], Reason: strings.Join(parts[3:], "")}
	if err := decode(row.Value, &r.Calls); err != nil {
		return r, fmt.Errorf("refused calls: %w", err)
	}
	return r, nil
}
