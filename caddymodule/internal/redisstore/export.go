package redisstore

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// Export implements store.Exporter. Recent calls that another gate has not
// written yet, those of about two seconds, can be missing.
func (s *Store) Export(ctx context.Context, write func(store.Item) error) error {
	if err := s.recent.flushAll(ctx); err != nil {
		return err
	}
	for members, err := range s.pages(ctx) {
		if err == nil {
			err = s.exportAccounts(ctx, members, write)
		}
		if err != nil {
			return err
		}
	}
	if err := s.exportRefused(ctx, write); err != nil {
		return err
	}
	if err := s.exportEntries(ctx, write); err != nil {
		return err
	}
	return s.exportEvents(ctx, write)
}

// exportAccounts exports members of the list of all accounts. It reads several
// at once.
func (s *Store) exportAccounts(ctx context.Context, members []string, write func(store.Item) error) error {
	found := make([][]store.Item, len(members))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, member := range members {
		group.Go(func() (err error) {
			found[i], err = s.itemsOf(reading, member)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, items := range found {
		if err := writeAll(items, write); err != nil {
			return err
		}
	}
	return nil
}

func writeAll(items []store.Item, write func(store.Item) error) error {
	for _, item := range items {
		if err := write(item); err != nil {
			return err
		}
	}
	return nil
}

// itemsOf returns all that an account has, of one instant.
func (s *Store) itemsOf(ctx context.Context, member string) ([]store.Item, error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	id, handle, _ := strings.Cut(member, " ")
	for {
		l, err := s.load(ctx, id)
		if err != nil {
			return nil, err
		}
		if !l.exists() || l.handle != handle {
			return nil, nil // deleted, or not written completely
		}
		keys, counts := s.everyKey(id, l)
		reply, err := s.client.runWithin(ctx, exportScript, keys, []string{l.version})
		if err != nil {
			return nil, err
		}
		if len(reply) == len(keys) {
			return decodeItems(id, reply, counts)
		}
		if !sleep(ctx, rand.N(5*time.Millisecond)) {
			return nil, unavailable(errConflict)
		}
	}
}

// firstCounts is the place of the first counts in the keys of exportScript.
const firstCounts = 3

// holderMonth says which counts a key of the server has.
type holderMonth struct {
	holder string
	month  calendar.Day // its first day
}

// everyKey returns the keys of exportScript, and what those of counts are.
func (s *Store) everyKey(id string, l *loaded) (keys []string, counts []holderMonth) {
	keys = append(s.stateKeys(id), s.recentKey(id))
	for _, holder := range l.holders() {
		for _, month := range s.allMonths() {
			keys = append(keys, s.countsKey(id, holder, monthOf(month)))
			counts = append(counts, holderMonth{holder, month})
		}
	}
	return keys, counts
}

// decodeItems reads the reply of exportScript.
func decodeItems(id string, reply []rueidis.RedisMessage, counts []holderMonth) (items []store.Item, err error) {
	l, err := decodeLoaded(id, reply)
	if err != nil {
		return nil, err
	}
	items = append(items, store.Item{Account: &l.account})
	for _, k := range l.ring {
		items = append(items, store.Item{Key: &store.StoredKey{Key: *k, Hash: l.tokens[k.ID]}})
	}
	for i, of := range counts {
		fields, err := reply[firstCounts+i].AsStrMap()
		if err != nil {
			return nil, damaged("counts of "+id, err)
		}
		_, last := of.month.Month()
		for _, c := range appendCounts(nil, of.month, fields, of.month, last) {
			items = append(items, store.Item{Count: &store.StoredCount{Account: id, Key: of.holder, Count: c}})
		}
	}
	rows, err := reply[2].AsStrSlice()
	if err != nil {
		return nil, damaged("recent calls of "+id, err)
	}
	for _, row := range rows {
		record, err := decodeRecord(id, row)
		if err != nil {
			return nil, err
		}
		items = append(items, store.Item{Call: &record})
	}
	return items, nil
}

// exportPage is how many rows of reports one request reads.
const exportPage = 500

func (s *Store) exportRefused(ctx context.Context, write func(store.Item) error) error {
	today := calendar.UTCDay(s.Now())
	return exportPages(func(after store.Refused) ([]store.Refused, error) {
		return s.ListRefused(ctx, "", today-store.ReportsFor-1, today+1, after, exportPage)
	}, func(row *store.Refused) error { return write(store.Item{Refused: row}) })
}

func (s *Store) exportEntries(ctx context.Context, write func(store.Item) error) error {
	return exportPages(func(after store.Entry) ([]store.Entry, error) {
		return s.ListEntries(ctx, "", time.Time{}, after.ID, exportPage)
	}, func(e *store.Entry) error { return write(store.Item{Entry: e}) })
}

// exportPages exports the rows of all pages.
func exportPages[T any](list func(after T) ([]T, error), write func(*T) error) error {
	for after := *new(T); ; {
		page, err := list(after)
		if err != nil {
			return err
		}
		for i := range page {
			if err := write(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < exportPage {
			return nil
		}
		after = page[len(page)-1]
	}
}

// exportEvents exports the queue in the order in which the events happened, and
// then the other ids that are known. An id can come twice while others are added.
func (s *Store) exportEvents(ctx context.Context, write func(store.Item) error) error {
	queued, err := ask(ctx, s.client, "the queue of events", func(b rueidis.Builder) rueidis.Completed {
		return b.Zrange().Key(s.queueKeys()[2]).Min("0").Max("-1").Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
	if err != nil {
		return err
	}
	skip := map[string]bool{}
	for page := range slices.Chunk(queued, exportPage) {
		items, err := s.queuedItems(ctx, page)
		if err != nil {
			return err
		}
		for _, item := range items {
			skip[item.Event.ID] = true
		}
		if err := writeAll(items, write); err != nil {
			return err
		}
	}
	for known := (rueidis.ScanEntry{}); ; {
		known, err = ask(ctx, s.client, "known events", func(b rueidis.Builder) rueidis.Completed {
			return b.Zscan().Key(s.knownKey()).Cursor(known.Cursor).Count(exportPage).Build()
		}, (*rueidis.RedisMessage).AsScanEntry)
		if err != nil {
			return err
		}
		for pair := range slices.Chunk(known.Elements, 2) {
			if skip[pair[0]] {
				continue
			}
			ms, err := strconv.ParseFloat(pair[1], 64)
			if err != nil {
				return damaged("event "+pair[0], err)
			}
			if err := write(store.Item{Event: &store.Event{ID: pair[0], Known: time.UnixMilli(int64(ms)).UTC()}}); err != nil {
				return err
			}
		}
		if known.Cursor == 0 {
			return nil
		}
	}
}

// queuedItems reads events of the queue. Those that were removed are not in the
// result.
func (s *Store) queuedItems(ctx context.Context, ids []string) (items []store.Item, err error) {
	keys := s.queueKeys()
	replies, err := s.client.doMulti(ctx, 3, func(l *link, i int) rueidis.Completed {
		switch i {
		case 0:
			return l.B().Hmget().Key(keys[0]).Field(ids...).Build()
		case 1:
			return l.B().Hmget().Key(keys[3]).Field(ids...).Build()
		}
		return l.B().Zmscore().Key(keys[1]).Member(ids...).Build()
	})
	if err != nil {
		return nil, err
	}
	rows, err := replies[0].ToArray()
	attempts, err2 := replies[1].AsIntSlice()
	due, err3 := replies[2].AsFloatSlice()
	if err := errors.Join(err, err2, err3); err != nil || len(rows) != len(ids) || len(attempts) != len(ids) || len(due) != len(ids) {
		return nil, damaged("the queue of events", cmp.Or(err, errShort))
	}
	for i, id := range ids {
		if rows[i].IsNil() {
			continue
		}
		row, err := rows[i].ToString()
		if err != nil {
			return nil, damaged("event "+id, err)
		}
		event, err := decodeEvent(id, row)
		if err != nil {
			return nil, err
		}
		event.Attempts, event.Due = int(attempts[i]), time.UnixMicro(int64(due[i])).UTC()
		items = append(items, store.Item{Event: &event})
	}
	return items, nil
}
