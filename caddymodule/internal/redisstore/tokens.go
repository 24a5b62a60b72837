package redisstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// expiredFor is how long an expired login token and the entry of an expired
// token are kept, for clocks that were wrong.
const expiredFor = 48 * time.Hour

// hint says which account and key a token belongs to: the entry of the token.
// It changes only when a token is imported into another account after its key
// ended. The key is empty for an account without a token.
type hint struct{ account, key string }

// value is the entry in the server.
func (h hint) value() string { return h.account + " " + h.key }

func parseHint(reply rueidis.RedisMessage) (hint, error) {
	value, err := reply.ToString()
	account, key, found := strings.Cut(value, " ")
	if err != nil || !found {
		return hint{}, damaged("a token", cmp.Or(err, errShort))
	}
	return hint{account, key}, nil
}

// hint reads which account and key a token belongs to. The error is
// store.ErrNoGrant if it has no entry.
func (s *Store) hint(ctx context.Context, hash token.Hash) (hint, error) {
	reply, err := s.client.one(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Get().Key(s.tokenKey(hash)).Build() })
	if err != nil {
		return hint{}, err
	}
	if reply.IsNil() {
		return hint{}, store.ErrNoGrant
	}
	return parseHint(reply)
}

// Holder implements store.Keys.
func (s *Store) Holder(ctx context.Context, hash token.Hash, at time.Time) (string, error) {
	of, err := s.hint(ctx, hash)
	if errors.Is(err, store.ErrNoGrant) {
		return "", store.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	key, err := s.Key(ctx, of.account, of.key)
	if err == nil && !key.Live(at) {
		err = store.ErrNotFound
	}
	if err != nil {
		return "", err
	}
	return of.account, nil
}

// enter writes which key a token belongs to. Without the key the entry means
// nothing, so it is written before the key.
//
// The entry of another account is replaced if its key has ended or the account
// is deleted. Otherwise the error is store.ErrTokenTaken, also if the account
// has no such key: another gate may be about to write it. A gate that ended
// between the two writes leaves such an entry. To free the token, import it into
// that account again and revoke the key, or delete the account.
func (s *Store) enter(ctx context.Context, key *store.Key, hash token.Hash, at time.Time) error {
	old := hint{account: key.Account} // no entry is like this
	for {
		found, err := s.writeEntry(ctx, key, hash, old)
		switch {
		case err != nil:
			return err
		case found == hint{} && old.account == key.Account:
			return nil
		case found == hint{}:
			return s.outdate(ctx, old, key, hash, at)
		case found.account != key.Account:
			if free, err := s.isFree(ctx, found, at); err != nil || !free {
				return cmp.Or(err, store.ErrTokenTaken)
			}
		}
		old = found
	}
}

// isFree tells whether the key of an entry has ended or its account is deleted.
func (s *Store) isFree(ctx context.Context, of hint, at time.Time) (bool, error) {
	l, err := s.load(ctx, of.account)
	if err != nil {
		return false, err
	}
	k := l.ring.Find(of.key)
	return !l.exists() || k != nil && !k.Live(at), nil
}

// outdate writes an account with a new version after its entry was replaced by
// that of key. Another gate may have read the account before, to make a key
// live longer or to create it again: its write fails now. If it was faster,
// outdate puts the entry back and returns store.ErrTokenTaken.
func (s *Store) outdate(ctx context.Context, of hint, key *store.Key, hash token.Hash, at time.Time) error {
	var live store.Key
	err := s.change(ctx, of.account, func(l *loaded) error {
		if !l.exists() {
			return store.ErrNotFound // a write that read it before fails
		}
		if k := l.ring.Find(of.key); k != nil && k.Live(at) {
			live = *k
			return store.ErrTokenTaken
		}
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrTokenTaken):
		if _, fault := s.writeEntry(ctx, &live, hash, hint{key.Account, key.ID}); fault != nil {
			return fault
		}
	}
	return err
}

// writeEntry writes the entry of a token if it has none, the same one, or old.
// Otherwise it returns the entry that it has.
func (s *Store) writeEntry(ctx context.Context, key *store.Key, hash token.Hash, old hint) (found hint, err error) {
	expires := ""
	if !key.ExpiresAt.IsZero() {
		expires = decimal(key.ExpiresAt.Add(expiredFor).UnixMilli())
	}
	reply, err := s.client.runWrite(ctx, enterScript, []string{s.tokenKey(hash)}, []string{hint{key.Account, key.ID}.value(), expires, old.value()})
	if err != nil || reply.IsNil() {
		return hint{}, err
	}
	return parseHint(reply)
}

// forget deletes the tokens of deleted keys, unless they belong to other keys
// meanwhile. What is left after an error says only which key to read, and there
// is none, so the error is only logged.
func (s *Store) forget(ctx context.Context, account string, dead []deadKey) {
	for chunk := range slices.Chunk(dead, maxDeletions) {
		_, err := s.client.doMulti(ctx, len(chunk), func(l *link, i int) rueidis.Completed {
			// Not by its hash: the server may not know the script.
			return l.B().Eval().Script(forgetScript.text).Numkeys(1).Key(s.tokenKey(chunk[i].hash)).
				Arg(hint{account, chunk[i].id}.value()).Build()
		})
		if err != nil {
			s.client.options.Logger.Warn("deleting the tokens of deleted keys", slog.Any("error", err))
			return
		}
	}
}
