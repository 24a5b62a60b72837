package redisstore

import (
	"cmp"
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// document is a document as it was read.
type document struct {
	*book.Account
	handle, version string // random numbers in decimal
	parts           book.Parts
}

// decodeDocument reads the fields of a document, with or without those of keys.
// It returns nil if there is none.
func decodeDocument(id string, reply rueidis.RedisMessage) (*document, error) {
	text, err := reply.AsStrSlice() // a missing field is empty
	if err != nil || len(text) < 3 {
		return nil, damaged("account "+id, cmp.Or(err, errShort))
	}
	text = append(text, "", "") // if the keys were not read
	if text[0] == "" {
		return nil, nil
	}
	d := &document{handle: text[0], version: text[1], parts: book.Parts{Account: []byte(text[2]), Keys: []byte(text[3]), Logins: []byte(text[4])}}
	if d.Account, err = book.Decode(id, d.parts); err != nil {
		return nil, damaged("a document", err)
	}
	return d, nil
}

func (s *Store) getDocument(b rueidis.Builder, id string, keys bool) rueidis.Completed {
	if !keys {
		return b.Hmget().Key(s.accountKey(id)).Field("i", "v", "a").Build()
	}
	return b.Hmget().Key(s.accountKey(id)).Field("i", "v", "a", "k", "l").Build()
}

// read reads a document. It returns nil if there is none.
func (s *Store) read(ctx context.Context, id string) (*document, error) {
	reply, err := s.client.one(ctx, func(b rueidis.Builder) rueidis.Completed { return s.getDocument(b, id, true) })
	if err != nil {
		return nil, err
	}
	return decodeDocument(id, reply)
}

// Get implements book.Engine.
func (s *Store) Get(ctx context.Context, id string) (*book.Account, error) {
	d, err := s.read(ctx, id)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, store.ErrNotFound
	}
	return d.Account, nil
}

// accountPage is how many accounts one request reads, of all accounts.
const accountPage = 200

// List implements book.Engine.
func (s *Store) List(ctx context.Context, after string, limit int, keys bool) (list []*book.Account, err error) {
	if after != "" {
		after = listed(after, "~") // after all handles
	}
	for limit > 0 {
		members, err := s.listedAfter(ctx, after, min(limit, accountPage))
		if err != nil || len(members) == 0 {
			return list, err
		}
		replies, err := s.client.doMulti(ctx, len(members), func(b rueidis.Builder, i int) rueidis.Completed {
			id, _, _ := strings.Cut(members[i], " ")
			return s.getDocument(b, id, keys)
		})
		if err != nil {
			return nil, err
		}
		for i, reply := range replies {
			id, handle, _ := strings.Cut(members[i], " ")
			d, err := decodeDocument(id, reply)
			if err != nil {
				return nil, err
			}
			// A gate that ended between two writes leaves a member
			// without an account.
			if d != nil && d.handle == handle {
				list = append(list, d.Account)
				limit--
			}
		}
		after = members[len(members)-1]
	}
	return list, nil
}

// listed is an account in the list of all accounts. With the handle, a deletion
// does not remove the next account of that id. A space is less than all
// characters of an id, so that the list has the order of the ids.
func listed(id, handle string) string { return id + " " + handle }

// listedAfter returns up to limit members of the list of all accounts.
func (s *Store) listedAfter(ctx context.Context, after string, limit int) ([]string, error) {
	least := "-"
	if after != "" {
		least = "(" + after
	}
	return ask(ctx, s.client, "the list of accounts", func(b rueidis.Builder) rueidis.Completed {
		return b.Zrangebylex().Key(s.accountsKey()).Min(least).Max("+").Limit(0, int64(limit)).Build()
	}, (*rueidis.RedisMessage).AsStrSlice)
}

// Holder implements book.Engine.
func (s *Store) Holder(ctx context.Context, hash token.Hash) (string, error) {
	of, err := s.tokenEntry(ctx, s.tokenKey(hash))
	return of.account, err
}

// HolderOfKey implements book.Engine.
func (s *Store) HolderOfKey(ctx context.Context, id string) (string, error) {
	of, err := s.tokenEntry(ctx, s.idKey(id))
	return of.account, err
}

// Totals implements book.Engine. After a lost write, the number of keys can be
// wrong by the keys of that write.
func (s *Store) Totals(ctx context.Context) (t store.Totals, err error) {
	replies, err := s.client.doMulti(ctx, 2, func(b rueidis.Builder, i int) rueidis.Completed {
		if i == 0 {
			return b.Zcard().Key(s.accountsKey()).Build()
		}
		return b.Zcount().Key(s.liveKeysKey()).Min("(" + decimal(s.Now().UnixMilli())).Max("+inf").Build()
	})
	if err != nil {
		return t, err
	}
	r := reader{reply: replies}
	t.Accounts, t.LiveKeys = int(r.int()), int(r.int())
	if r.err != nil {
		return t, damaged("totals", r.err)
	}
	return t, nil
}
