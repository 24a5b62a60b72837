package redisstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

const (
	// maxGrants is how many grants are cached. One takes about 700 bytes.
	maxGrants = 50_000

	// maxSeen is how many accounts and keys the store remembers counts of.
	// One takes about 400 bytes.
	maxSeen = 50_000

	// epochs is how many counters tell that this gate changed an account.
	epochs = 1024
)

// Store is a store.Store on a server.
type Store struct {
	client *client
	prefix string
	grants *lru.Cache[token.Hash, cachedGrant]
	seen   *lru.Cache[seenKey, *seen]
	recent *recent
	seed   maphash.Seed
	// maxQueued is store.MaxQueued, except in tests.
	maxQueued int
	// epochs change when this gate changes an account. A cached grant of
	// an older epoch is not used.
	epochs [epochs]atomic.Uint64
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Clock = (*Store)(nil)
)

// Open returns a store that connects in the background. Until then it returns
// store.ErrUnavailable.
func Open(o Options) (*Store, error) {
	o, err := o.resolve()
	if err != nil {
		return nil, err
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	s := &Store{client: c, prefix: o.Prefix, seed: maphash.MakeSeed(), maxQueued: store.MaxQueued}
	s.grants = newCache[token.Hash, cachedGrant](maxGrants)
	s.seen = newCache[seenKey, *seen](maxSeen)
	s.recent = newRecent(s)
	return s, nil
}

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // only of a size below 1
	}
	return cache
}

// Close writes the recent calls that wait, and ends the connections.
func (s *Store) Close() error {
	err := s.recent.close()
	s.client.close()
	return err
}

// Timeout is how long a request waits for the server.
func (s *Store) Timeout() time.Duration { return s.client.options.Timeout }

// Now returns the time of the server.
func (s *Store) Now() time.Time { return s.client.clock.Now() }

// Since returns the time since a time of Now.
func (s *Store) Since(t time.Time) time.Duration { return s.client.clock.Since(t) }

// Check implements store.Health.
func (s *Store) Check(ctx context.Context) error {
	ctx, cancel := s.client.within(ctx)
	defer cancel()
	return s.client.ping(ctx)
}

// epoch returns the epoch of an account.
func (s *Store) epoch(account string) *atomic.Uint64 {
	return &s.epochs[maphash.String(s.seed, account)%epochs]
}

// The names of keys. See the comment of the package.

func (s *Store) accountKey(account string) string { return s.prefix + ":{" + account + "}:a" }
func (s *Store) keysKey(account string) string    { return s.prefix + ":{" + account + "}:k" }
func (s *Store) recentKey(account string) string  { return s.prefix + ":{" + account + "}:r" }
func (s *Store) indexKey() string                 { return s.prefix + ":accounts" }

func (s *Store) tokenKey(hash token.Hash) string { return fmt.Sprintf("%s:t:%x", s.prefix, hash[:]) }

// stateKeys are the keys that one script reads or writes together.
func (s *Store) stateKeys(account string) []string {
	return []string{s.accountKey(account), s.keysKey(account)}
}
