package redisstore

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// accountPage is how many accounts one request reads, of all accounts.
const accountPage = 200

// liveKeysKey has the ids of live keys by their expiry in milliseconds.
func (s *Store) liveKeysKey() string { return s.prefix + ":keys" }

// expiryScore is the score of a key in the set of live keys.
func expiryScore(k *store.Key) float64 {
	if k.ExpiresAt.IsZero() {
		return math.Inf(1)
	}
	return float64(k.ExpiresAt.UnixMilli())
}

// count updates the set of live keys after a change. Only Totals reads that, so an
// error is only logged.
func (s *Store) count(ctx context.Context, changed []*store.Key, dead []deadKey) {
	n := len(changed)
	_, err := s.client.doMulti(ctx, 1+n+len(dead), func(l *link, i int) rueidis.Completed {
		id := ""
		switch {
		case i == n+len(dead):
			return l.B().Zremrangebyscore().Key(s.liveKeysKey()).Min("-inf").Max(decimal(s.Now().UnixMilli())).Build()
		case i >= n:
			id = dead[i-n].id
		case changed[i].RevokedAt.IsZero():
			return l.B().Zadd().Key(s.liveKeysKey()).ScoreMember().ScoreMember(expiryScore(changed[i]), changed[i].ID).Build()
		default:
			id = changed[i].ID
		}
		return l.B().Zrem().Key(s.liveKeysKey()).Member(id).Build()
	})
	if err != nil {
		s.client.options.Logger.Warn("counting live keys", slog.Any("error", err))
	}
}

// Totals implements store.Overview. After a lost write, the number of keys can be
// wrong by the keys of that write.
func (s *Store) Totals(ctx context.Context) (store.Totals, error) {
	replies, err := s.client.doMulti(ctx, 2, func(l *link, i int) rueidis.Completed {
		if i == 0 {
			return l.B().Zcard().Key(s.indexKey()).Build()
		}
		return l.B().Zcount().Key(s.liveKeysKey()).Min("(" + decimal(s.Now().UnixMilli())).Max("+inf").Build()
	})
	if err != nil {
		return store.Totals{}, err
	}
	accounts, err := replies[0].AsInt64()
	keys, err2 := replies[1].AsInt64()
	if err := errors.Join(err, err2); err != nil {
		return store.Totals{}, damaged("totals", err)
	}
	return store.Totals{Accounts: int(accounts), LiveKeys: int(keys)}, nil
}

// CountsOfAccounts implements store.Overview.
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

// FindKey implements store.Overview. It asks all accounts.
func (s *Store) FindKey(ctx context.Context, id string) (store.Key, error) {
	for members, err := range s.pages(ctx) {
		if err != nil {
			return store.Key{}, err
		}
		if key, err := s.keyAmong(ctx, members, id); !errors.Is(err, store.ErrNotFound) {
			return key, err
		}
	}
	return store.Key{}, store.ErrNotFound
}

// keyAmong looks for a key in some accounts.
func (s *Store) keyAmong(ctx context.Context, members []string, id string) (store.Key, error) {
	accounts := make([]string, len(members))
	for i, member := range members {
		accounts[i], _, _ = strings.Cut(member, " ")
	}
	replies, err := s.client.doMulti(ctx, len(accounts), func(l *link, i int) rueidis.Completed { return s.getKey(l.B(), accounts[i], id) })
	if err != nil {
		return store.Key{}, err
	}
	for i, reply := range replies {
		if key, err := keyOf(accounts[i], id, reply); !errors.Is(err, store.ErrNotFound) {
			return key, err
		}
	}
	return store.Key{}, store.ErrNotFound
}
