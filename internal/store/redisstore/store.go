package redisstore

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

const (
	// maxSeen is how many accounts and keys the store remembers counts of.
	// One takes about 400 bytes.
	maxSeen = 50_000

	// epochs is how many counters tell that this gate changed an account.
	epochs = 1024

	// writers is how many accounts the store reads or changes at once.
	writers = 16
)

// Store is a book.Engine on a server.
type Store struct {
	client *client
	prefix string
	grants *grants
	// tokenAccounts are the accounts of tokens, as the server had them. A token
	// can be imported into another account after its key has ended.
	tokenAccounts *lru.Cache[token.Hash, string]
	seen          *lru.Cache[seenKey, *seen]
	seed          maphash.Seed
	// epochs change when this gate changes an account. A cached grant of
	// an older epoch is not used.
	epochs  [epochs]atomic.Uint64
	running running

	stop       context.CancelFunc
	background sync.WaitGroup
}

var (
	_ book.Engine = (*Store)(nil)
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
	s := &Store{client: c, prefix: o.Prefix, grants: newGrants(), seed: maphash.MakeSeed(), running: running{lists: map[string][]string{}}}
	// They fail only for a size below 1.
	s.tokenAccounts, _ = lru.New[token.Hash, string](maxGrants)
	s.seen, _ = lru.New[seenKey, *seen](maxSeen)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.background.Go(func() { s.publishOrphans(ctx) })
	s.background.Go(func() { s.renewRunning(ctx) })
	return s, nil
}

// Close ends the connections.
func (s *Store) Close() error {
	s.stop()
	s.background.Wait()
	s.client.close()
	return nil
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

// warn logs an error of something that is not needed now.
func (s *Store) warn(what string, err error) {
	if err != nil {
		s.client.options.Logger.Warn(what, slog.Any("error", err))
	}
}

func damaged(what string, err error) error {
	return unavailable(fmt.Errorf("the server has damaged data: %s: %w", what, err))
}

// The names of keys. See the comment of the package.

func (s *Store) accountKey(account string) string { return s.prefix + ":{" + account + "}:a" }
func (s *Store) queueKey(account string) string   { return s.prefix + ":{" + account + "}:o" }

func (s *Store) tokenKey(hash token.Hash) string { return fmt.Sprintf("%s:t:%x", s.prefix, hash[:]) }
func (s *Store) idKey(id string) string          { return s.prefix + ":n:" + id }

func (s *Store) accountsKey() string { return s.prefix + ":accounts" }
func (s *Store) liveKeysKey() string { return s.prefix + ":keys" }
func (s *Store) logKey() string      { return s.prefix + ":audit" }
func (s *Store) pendingKey() string  { return s.prefix + ":pending" }

// spaceKeys are order, values and expiries of the rows of a space.
func (s *Store) spaceKeys(of book.Space) []string {
	key := s.prefix + ":s:{" + of.Name + "}:"
	if of.Account != "" {
		key = s.prefix + ":{" + of.Account + "}:s:"
	}
	return []string{key + "i", key + "n", key + "x"}
}
