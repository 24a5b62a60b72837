package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// dumpPage is how many entries one request of a dump reads, and how many rows one
// of a restore writes.
const dumpPage = 500

// Dump implements book.Engine.
func (s *Store) Dump(ctx context.Context, spaces []book.Space, write func(book.Piece) error) error {
	for after := ""; ; {
		members, err := s.listedAfter(ctx, after, accountPage)
		if err == nil {
			err = s.dumpAccounts(ctx, members, write)
		}
		if err != nil {
			return err
		}
		if len(members) < accountPage {
			break
		}
		after = members[len(members)-1]
	}
	for _, of := range spaces {
		if err := s.dumpSpace(ctx, of, write); err != nil {
			return err
		}
	}
	// Each change that the documents have is in the log or in a queue.
	if err := s.publishAll(ctx); err != nil {
		return err
	}
	return s.dumpLog(ctx, write)
}

// dumpAccounts dumps members of the list of all accounts. It reads several at
// once.
func (s *Store) dumpAccounts(ctx context.Context, members []string, write func(book.Piece) error) error {
	found := make([][]book.Piece, len(members))
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i, member := range members {
		group.Go(func() (err error) {
			found[i], err = s.piecesOf(reading, member)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range slices.Concat(found...) {
		if err := write(p); err != nil {
			return err
		}
	}
	return nil
}

// piecesOf returns all that an account has, of one instant.
func (s *Store) piecesOf(ctx context.Context, member string) ([]book.Piece, error) {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	id, handle, _ := strings.Cut(member, " ")
	for {
		d, err := s.read(ctx, id)
		if err != nil || d == nil || d.handle != handle {
			return nil, err // deleted, or not written completely
		}
		pieces, err := s.piecesWith(ctx, d)
		if !errors.Is(err, errOutdated) {
			return pieces, err
		}
		if !sleep(ctx, rand.N(5*time.Millisecond)) {
			return nil, unavailable(err)
		}
	}
}

// piecesWith returns all that an account has. The error is errOutdated if its
// document has changed.
func (s *Store) piecesWith(ctx context.Context, d *document) ([]book.Piece, error) {
	of := book.Space{Account: d.ID}
	keys := append(s.spaceKeys(of)[1:], s.accountKey(d.ID))
	var counts []store.StoredCount // with the first day of a month
	for _, key := range slices.Concat(store.OwnCounts, []string{store.CallsKey}, d.Counted()) {
		for _, month := range append(s.allMonths(), firstOf(store.TotalDay)) {
			keys = append(keys, s.countsKey(d.ID, key, monthOf(month)))
			counts = append(counts, store.StoredCount{Account: d.ID, Key: key, Count: store.Count{Day: month}})
		}
	}
	reply, err := s.client.runWithin(ctx, dumpScript, keys, []string{d.version})
	if err != nil {
		return nil, err
	}
	if len(reply) != len(keys)-1 {
		return nil, errOutdated
	}
	rows, err := s.rowsOf(of, reply)
	if err != nil {
		return nil, err
	}
	pieces := append([]book.Piece{{Document: d.Account}}, rows...)
	for i, month := range counts {
		first, last := month.Day.Month()
		found, err := appendCounts(nil, reply[2+i], month, first, last)
		if err != nil {
			return nil, err
		}
		for _, c := range found {
			pieces = append(pieces, book.Piece{Count: &c})
		}
	}
	return pieces, nil
}

// rowsOf reads the rows in a reply of dumpScript.
func (s *Store) rowsOf(of book.Space, reply []rueidis.RedisMessage) (pieces []book.Piece, err error) {
	if len(reply) < 2 {
		return nil, damaged("rows", errShort)
	}
	values, err := reply[0].AsStrMap()
	scores, err2 := reply[1].AsStrSlice()
	if err := errors.Join(err, err2); err != nil {
		return nil, damaged("rows", err)
	}
	now := s.Now()
	for pair := range slices.Chunk(scores, 2) {
		expires, err := parseExpiry(pair[1])
		if err != nil {
			return nil, damaged("row "+pair[0], err)
		}
		if expires.IsZero() || expires.After(now) {
			pieces = append(pieces, book.Piece{Space: of, Row: &book.Row{Key: pair[0], Value: []byte(values[pair[0]]), Expires: expires}})
		}
	}
	return pieces, nil
}

// dumpSpace dumps the rows of a space with a name. Its parts are of several
// instants.
func (s *Store) dumpSpace(ctx context.Context, of book.Space, write func(book.Piece) error) error {
	for from := ""; ; {
		lists, err := s.Scan(ctx, dumpPage, book.Range{Space: of, From: from})
		if err != nil {
			return err
		}
		for _, row := range lists[0] {
			if err := write(book.Piece{Space: of, Row: &row}); err != nil {
				return err
			}
			from = row.Key + "\x00"
		}
		if len(lists[0]) < dumpPage {
			return nil
		}
	}
}

func (s *Store) dumpLog(ctx context.Context, write func(book.Piece) error) error {
	for after := (store.EntryID{Milliseconds: -1}); ; {
		page, err := s.Entries(ctx, after, store.EntryID{}, false, dumpPage)
		if err != nil {
			return err
		}
		for _, l := range page {
			if err := write(book.Piece{Entry: &l}); err != nil {
				return err
			}
			after = l.ID
		}
		if len(page) < dumpPage {
			return nil
		}
	}
}
