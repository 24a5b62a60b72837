package redisstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// ChangeAccount implements store.Accounts.
func (s *Store) ChangeAccount(ctx context.Context, id string, change func(*store.Account, bool) error) (store.Account, error) {
	var changed store.Account
	err := s.change(ctx, id, func(l *loaded) error {
		changed = l.account
		changed.ID, changed.Overrides = id, slices.Clone(l.account.Overrides)
		if err := change(&changed, l.exists()); err != nil {
			return err
		}
		changed.ID = id
		if l.exists() {
			changed.CreatedAt = l.account.CreatedAt
		} else {
			l.handle = newNumber()
			// First, so that no account is missing in the list.
			if err := s.list(ctx, id, l.handle); err != nil {
				return err
			}
		}
		l.account = changed
		return nil
	})
	if err != nil {
		return store.Account{}, err
	}
	return changed, nil
}

// ChangeAccounts implements store.Accounts. It calls change for one account at a
// time.
func (s *Store) ChangeAccounts(ctx context.Context, ids []string, change func(int, *store.Account, bool) error) ([]store.Account, []error) {
	accounts, errs := make([]store.Account, len(ids)), make([]error, len(ids))
	var changing sync.Mutex
	var group errgroup.Group
	group.SetLimit(writers)
	for i, id := range ids {
		group.Go(func() error {
			accounts[i], errs[i] = s.ChangeAccount(ctx, id, func(account *store.Account, exists bool) error {
				changing.Lock()
				defer changing.Unlock()
				return change(i, account, exists)
			})
			return nil
		})
	}
	_ = group.Wait() // each account has an error of its own
	return accounts, errs
}

// listed is an account in the list of all accounts. With the handle, a deletion
// does not remove the next account of that id. A space is less than all
// characters of an id, so that the list has the order of the ids.
func listed(id, handle string) string { return id + " " + handle }

// list adds an account to the list of all accounts.
func (s *Store) list(ctx context.Context, id, handle string) error {
	_, err := s.client.write(ctx, func(c rueidis.CoreClient) rueidis.RedisResult {
		return c.Do(ctx, c.B().Zadd().Key(s.indexKey()).ScoreMember().ScoreMember(0, listed(id, handle)).Build())
	})
	return err
}

// Account implements store.Accounts.
func (s *Store) Account(ctx context.Context, id string) (store.Account, error) {
	reply, err := s.client.one(ctx, func(b rueidis.Builder) rueidis.Completed { return s.getAccount(b, id) })
	if err != nil {
		return store.Account{}, err
	}
	state, err := decodeAccount(id, reply)
	if err != nil {
		return store.Account{}, err
	}
	if !state.exists() {
		return store.Account{}, store.ErrNotFound
	}
	return state.account, nil
}

func (s *Store) getAccount(b rueidis.Builder, id string) rueidis.Completed {
	return b.Hmget().Key(s.accountKey(id)).Field("i", "v", "p", "d", "c", "o", "l").Build()
}

// ListAccounts implements store.Accounts.
func (s *Store) ListAccounts(ctx context.Context, after string, limit int) (list []store.Account, err error) {
	if after != "" {
		after = listed(after, "~") // after all handles
	}
	for limit > 0 {
		members, err := s.listedAfter(ctx, after, limit)
		if err != nil || len(members) == 0 {
			return list, err
		}
		found, err := s.accountsOf(ctx, members)
		if err != nil {
			return nil, err
		}
		// A gate that ended between two writes leaves a member without an account.
		list, limit = append(list, found...), limit-len(found)
		after = members[len(members)-1]
	}
	return list, nil
}

// pages returns all members of the list of all accounts.
func (s *Store) pages(ctx context.Context) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for after := ""; ; {
			members, err := s.listedAfter(ctx, after, accountPage)
			if err == nil && len(members) == 0 || !yield(members, err) || err != nil {
				return
			}
			after = members[len(members)-1]
		}
	}
}

// listedAfter returns up to limit members of the list of all accounts.
func (s *Store) listedAfter(ctx context.Context, after string, limit int) ([]string, error) {
	least := "-"
	if after != "" {
		least = "(" + after
	}
	return ask(ctx, s.client, "the list of accounts", func(b rueidis.Builder) rueidis.Completed {
		return b.Zrangebylex().Key(s.indexKey()).Min(least).Max("+").Limit(0, int64(limit)).Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
}

// accountsOf reads the accounts of members of the list. Those that do not exist
// are not in the result.
func (s *Store) accountsOf(ctx context.Context, members []string) (list []store.Account, err error) {
	ids, handles := make([]string, len(members)), make([]string, len(members))
	for i, member := range members {
		ids[i], handles[i], _ = strings.Cut(member, " ")
	}
	replies, err := s.client.doMulti(ctx, len(ids), func(l *link, i int) rueidis.Completed { return s.getAccount(l.B(), ids[i]) })
	if err != nil {
		return nil, err
	}
	for i, reply := range replies {
		state, err := decodeAccount(ids[i], reply)
		if err != nil {
			return nil, err
		}
		if state.exists() && state.handle == handles[i] {
			list = append(list, state.account)
		}
	}
	return list, nil
}

// DeleteAccount implements store.Accounts.
func (s *Store) DeleteAccount(ctx context.Context, id string) error {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	for {
		l, err := s.load(ctx, id)
		if err != nil {
			return err
		}
		if !l.exists() {
			return cmp.Or(s.confirmDeleted(ctx, id), store.ErrNotFound)
		}
		keys, _ := s.everyKey(id, l)
		err = s.commit(ctx, id, deleteScript, keys, []string{l.version})
		if err == nil {
			s.recent.drop(id)
			s.unlist(ctx, id, l)
			return nil
		}
		if !errors.Is(err, errConflict) {
			return err
		}
	}
}

// confirmDeleted waits until the replicas have what was written before: an earlier
// try may have deleted the account, but not on enough replicas.
func (s *Store) confirmDeleted(ctx context.Context, id string) error {
	if s.client.options.WaitReplicas == 0 {
		return nil
	}
	_, err := s.client.runWrite(ctx, pingScript, []string{s.prefix + ":{" + id + "}:check"}, nil)
	return err
}

// unlist deletes what other slots have of a deleted account. What is left after
// an error means nothing, so the error is only logged.
func (s *Store) unlist(ctx context.Context, id string, l *loaded) {
	var dead []deadKey
	for id, hash := range l.tokens {
		dead = append(dead, deadKey{id, hash})
	}
	member := listed(id, l.handle)
	_, err := s.client.one(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Zrem().Key(s.indexKey()).Member(member).Build() })
	if err != nil {
		s.client.options.Logger.Warn("deleting an account from the list of accounts", slog.Any("error", err))
	}
	s.forget(ctx, id, dead)
	s.count(ctx, nil, dead)
}
