package redisstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/keyring"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

func keyField(id string) string { return "k:" + id }
func useField(id string) string { return "u:" + id }

// loaded is an account with all of its keys, as one script read them.
type loaded struct {
	*state
	ring   keyring.Ring
	tokens map[string]token.Hash // by id of the key
	rows   map[string]string     // by id, as they are stored
	// changed are the keys that save writes.
	changed []*store.Key
}

// load reads an account and its keys.
func (s *Store) load(ctx context.Context, account string) (*loaded, error) {
	reply, err := s.client.runWithin(ctx, loadScript, s.stateKeys(account), nil)
	if err != nil {
		return nil, err
	}
	return decodeLoaded(account, reply)
}

// decodeLoaded reads the fields of an account, and those of its keys.
func decodeLoaded(account string, reply []rueidis.RedisMessage) (*loaded, error) {
	if len(reply) < 2 {
		return nil, damaged("account "+account, errShort)
	}
	state, err := decodeAccount(account, reply[0])
	if err != nil {
		return nil, err
	}
	l := &loaded{state: state, tokens: map[string]token.Hash{}, rows: map[string]string{}}
	fields, err := reply[1].AsStrMap()
	if err != nil {
		return nil, damaged("account "+account, err)
	}
	for field, row := range fields {
		id, isKey := strings.CutPrefix(field, "k:")
		if !isKey {
			continue
		}
		key, hash, err := decodeKey(account, id, row)
		if err != nil {
			return nil, err
		}
		if err := decodeUse(&key, fields[useField(id)]); err != nil {
			return nil, err
		}
		l.ring = append(l.ring, &key)
		l.tokens[id], l.rows[id] = hash, row
	}
	l.ring.Sort()
	return l, nil
}

// newNumber returns a random number for a handle or a version. A counter would
// repeat numbers after a deletion, and after lost writes.
func newNumber() string { return strconv.FormatUint(rand.Uint64()|1, 10) }

// errConflict says that another gate changed an account after it was read.
var errConflict = errors.New("the account was changed at the same time")

// change reads an account with its keys, lets edit change them, and writes what
// has changed, in one atomic step. It begins again after a conflict.
func (s *Store) change(ctx context.Context, account string, edit func(*loaded) error) error {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	for {
		l, err := s.load(ctx, account)
		if err != nil {
			return err
		}
		before := l.version
		if err := edit(l); err != nil {
			return err
		}
		dead := l.prune(s.Now())
		err = s.save(ctx, account, before, l, dead)
		if err == nil {
			s.forget(ctx, account, dead)
			if len(l.changed)+len(dead) > 0 {
				s.count(ctx, l.changed, dead)
			}
			return nil
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		if !sleep(ctx, rand.N(5*time.Millisecond)) {
			return unavailable(err)
		}
	}
}

// save writes an account with its keys if its version is still the same. It
// writes the account also if nothing has changed, so that it is durable.
func (s *Store) save(ctx context.Context, account, before string, l *loaded, dead []deadKey) error {
	l.version = newNumber()
	fields, err := encodeAccount(l.state)
	if err != nil {
		return err
	}
	args := append([]string{before, strconv.Itoa(len(fields) / 2)}, fields...)
	var rows []string
	for _, k := range l.ring {
		row, err := encodeKey(k, l.tokens[k.ID])
		if err != nil {
			return err
		}
		if row != l.rows[k.ID] {
			rows = append(rows, keyField(k.ID), row)
			l.changed = append(l.changed, k)
		}
	}
	args = append(append(args, strconv.Itoa(len(rows)/2)), rows...)
	for _, k := range dead {
		args = append(args, keyField(k.id), useField(k.id))
	}
	return s.commit(ctx, account, changeScript, s.stateKeys(account), args)
}

// commit runs a script that changes an account unless its version is another one.
func (s *Store) commit(ctx context.Context, account string, script *script, keys, args []string) error {
	// From here on, no grant that is cached already is used, also if the reply
	// is lost. The second number is for grants that are read until then.
	epoch := s.epoch(account)
	epoch.Add(1)
	defer epoch.Add(1)
	reply, err := s.client.runWrite(ctx, script, keys, args)
	if err != nil {
		return err
	}
	if written, err := reply.AsInt64(); err != nil || written == 0 {
		return errors.Join(errConflict, err)
	}
	return nil
}

// maxDeletions is how many old keys one change deletes. More would take too
// long.
const maxDeletions = 200

// deadKey is a key that is not listed any more.
type deadKey struct {
	id   string
	hash token.Hash
}

// prune removes the keys that ended long ago, or of which there are too many.
func (l *loaded) prune(now time.Time) (dead []deadKey) {
	ended := map[token.Kind][]*store.Key{}
	for _, k := range l.ring {
		if !k.Live(now) {
			ended[k.Kind] = append(ended[k.Kind], k)
		}
	}
	for kind, keys := range ended {
		slices.SortFunc(keys, func(a, b *store.Key) int { return b.EndedAt().Compare(a.EndedAt()) })
		for i, k := range keys {
			old := now.Sub(k.EndedAt()) > store.RevokedFor
			if kind == token.Login {
				old = !k.ExpiresAt.IsZero() && now.Sub(k.ExpiresAt) > expiredFor
			}
			if (old || i >= store.MaxEndedKeys) && len(dead) < maxDeletions {
				dead = append(dead, deadKey{k.ID, l.tokens[k.ID]})
			}
		}
	}
	l.ring = slices.DeleteFunc(l.ring, func(k *store.Key) bool {
		return slices.ContainsFunc(dead, func(d deadKey) bool { return d.id == k.ID })
	})
	return dead
}
