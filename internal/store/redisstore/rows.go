package redisstore

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// rangesAtOnce is how many ranges one request reads.
const rangesAtOnce = 32

// GetRows implements book.Engine.
func (s *Store) GetRows(ctx context.Context, of book.Space, keys ...string) ([]book.Row, error) {
	reply, err := s.client.runWithin(ctx, scanScript, s.spaceKeys(of), append([]string{"get"}, keys...))
	if err != nil {
		return nil, err
	}
	return decodeRows(reply)
}

// Scan implements book.Engine.
func (s *Store) Scan(ctx context.Context, limit int, ranges ...book.Range) ([][]book.Row, error) {
	lists := make([][]book.Row, len(ranges))
	for first := 0; first < len(ranges) && limit > 0; first += rangesAtOnce {
		some := ranges[first:min(first+rangesAtOnce, len(ranges))]
		calls := make([]call, len(some))
		for i, r := range some {
			most := "+"
			if r.To != "" {
				most = "(" + r.To
			}
			calls[i] = call{s.spaceKeys(r.Space), []string{"scan", "[" + r.From, most, strconv.Itoa(limit)}}
		}
		replies, errs := s.client.runMulti(ctx, scanScript, calls)
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		for i, reply := range replies {
			rows, err := decodeRows(reply)
			if err != nil {
				return nil, err
			}
			lists[first+i] = rows[:min(limit, len(rows))]
			limit -= len(lists[first+i])
		}
	}
	return lists, nil
}

// decodeRows reads the reply of scanScript.
func decodeRows(reply []rueidis.RedisMessage) ([]book.Row, error) {
	if len(reply) != 3 {
		return nil, damaged("rows", errShort)
	}
	keys, err := reply[0].AsStrSlice()
	values, err2 := reply[1].ToArray()
	expiries, err3 := reply[2].AsStrSlice()
	if err := errors.Join(err, err2, err3); err != nil || len(values) != len(keys) || len(expiries) != len(keys) {
		return nil, damaged("rows", errors.Join(err, errShort))
	}
	list := make([]book.Row, len(keys))
	for i, key := range keys {
		list[i].Key = key
		if values[i].IsNil() {
			continue
		}
		value, err := values[i].ToString()
		if err != nil {
			return nil, damaged("row "+key, err)
		}
		if list[i].Expires, err = parseExpiry(expiries[i]); err != nil {
			return nil, damaged("row "+key, err)
		}
		list[i].Value = []byte(value)
	}
	return list, nil
}

// parseExpiry reads the score of a row in the set of expiries.
func parseExpiry(score string) (time.Time, error) {
	ms, err := strconv.ParseFloat(score, 64)
	if err != nil || math.IsInf(ms, 1) {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(ms)).UTC(), nil
}

// appendWrites appends writes as lua/rows.lua reads them. An expiry is rounded
// up to milliseconds.
func appendWrites(args []string, writes []book.Write) []string {
	for _, w := range writes {
		old, value, expires := "", "-", "+inf"
		switch {
		case w.Check && w.Old == nil:
			old = "-"
		case w.Check:
			old = "x" + string(w.Old)
		}
		if w.Value != nil {
			value = "x" + string(w.Value)
		}
		if !w.Expires.IsZero() {
			expires = decimal(w.Expires.Add(time.Millisecond - 1).UnixMilli())
		}
		args = append(args, w.Key, old, value, expires)
	}
	return args
}

// Commit implements book.Engine.
func (s *Store) Commit(ctx context.Context, batches ...book.Batch) []error {
	return s.commit(ctx, false, batches)
}

// commit is Commit, or with all set for accounts that do not exist as well.
func (s *Store) commit(ctx context.Context, all bool, batches []book.Batch) []error {
	calls := make([]call, len(batches))
	for i, b := range batches {
		keys := s.spaceKeys(b.Space)
		if b.Account != "" && !all {
			keys = append(keys, s.accountKey(b.Account))
		}
		calls[i] = call{keys, appendWrites([]string{number(uint64(b.Handle))}, b.Writes)}
	}
	replies, errs := s.client.runMulti(ctx, commitScript, calls)
	for i, reply := range replies {
		if errs[i] != nil {
			continue
		}
		r := reader{reply: reply}
		if result := r.int(); r.err != nil {
			errs[i] = damaged("reply", r.err)
		} else if result == 0 {
			errs[i] = book.ErrConflict
		}
	}
	return errs
}
