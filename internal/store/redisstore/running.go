package redisstore

import (
	"context"
	"crypto/rand"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	// runFor is how long a call is in its lists, unless its gate renews it every
	// runEvery. After a failure, the gate tries again in runAgain.
	runFor   = 30 * time.Second
	runEvery = 10 * time.Second
	runAgain = time.Second

	// renewedAtOnce is how many calls of a list are renewed by one script.
	renewedAtOnce = 500
)

// running has the calls that run in this process, by their id.
type running struct {
	// renewing is held while calls are renewed, so that none returns to a list
	// after it has left.
	renewing sync.RWMutex
	mu       sync.Mutex
	lists    map[string][]string // keys
}

var _ store.Concurrency = (*Store)(nil)

// Enter implements store.Concurrency.
func (s *Store) Enter(ctx context.Context, account string, lists []string, most []int64, n int64) ([]int64, func(), error) {
	keys, ids := s.listKeys(account, lists), []string{rand.Text()}
	for i := int64(1); i < n; i++ {
		ids = append(ids, ids[0]+decimal(i))
	}
	entered, now, err := s.run(ctx, keys, most, ids...)
	leave := func() { s.leave(ids, keys) }
	if err != nil {
		go leave() // the server may have it
		return nil, nil, err
	}
	if !entered {
		return now, nil, nil
	}
	s.running.mu.Lock()
	defer s.running.mu.Unlock()
	for _, id := range ids {
		s.running.lists[id] = keys
	}
	return now, leave, nil
}

// leave removes calls from their lists. If that fails, they expire.
func (s *Store) leave(ids, keys []string) {
	s.running.mu.Lock()
	for _, id := range ids {
		delete(s.running.lists, id)
	}
	s.running.mu.Unlock()
	s.running.renewing.RLock()
	defer s.running.renewing.RUnlock()
	_, _ = s.client.doMulti(context.Background(), len(keys), func(b rueidis.Builder, i int) rueidis.Completed {
		return b.Zrem().Key(keys[i]).Member(ids...).Build()
	})
}

// Running implements store.Concurrency.
func (s *Store) Running(ctx context.Context, account string, lists []string) ([]int64, error) {
	_, now, err := s.run(ctx, s.listKeys(account, lists), make([]int64, len(lists)))
	return now, err
}

func (s *Store) listKeys(account string, lists []string) []string {
	keys := make([]string, len(lists))
	for i, name := range lists {
		keys[i] = s.prefix + ":{" + account + "}:r:" + name
	}
	return keys
}

// run runs runningScript. A client that leaves does not end it.
func (s *Store) run(ctx context.Context, keys []string, most []int64, ids ...string) (entered bool, now []int64, err error) {
	reply, err := s.client.runWithin(context.WithoutCancel(ctx), runningScript, keys, runningArgs(most, ids))
	if err != nil {
		return false, nil, err
	}
	r := reader{reply: reply}
	entered = r.int() == 1
	for range keys {
		now = append(now, r.int())
	}
	if r.err != nil {
		return false, nil, damaged("reply", r.err)
	}
	return entered, now, nil
}

func runningArgs(most []int64, ids []string) []string {
	args := []string{decimal(runFor.Milliseconds())}
	for _, n := range most {
		args = append(args, decimal(n))
	}
	return append(args, ids...)
}

// renewRunning renews the calls that run in this process. Those that have expired,
// because the server was away, are added again.
func (s *Store) renewRunning(ctx context.Context) {
	for pause := runEvery; sleep(ctx, pause); {
		if pause = runEvery; s.renewAll(ctx) != nil {
			pause = runAgain
		}
	}
}

func (s *Store) renewAll(ctx context.Context) error {
	s.running.renewing.Lock()
	defer s.running.renewing.Unlock()
	ids := map[string][]string{}
	s.running.mu.Lock()
	for id, keys := range s.running.lists {
		for _, key := range keys {
			ids[key] = append(ids[key], id)
		}
	}
	s.running.mu.Unlock()
	var calls []call
	for key, of := range ids {
		for some := range slices.Chunk(of, renewedAtOnce) {
			calls = append(calls, call{[]string{key}, runningArgs([]int64{math.MaxInt64}, some)})
		}
	}
	for some := range slices.Chunk(calls, renewedAtOnce) {
		_, errs := s.client.runMulti(ctx, runningScript, some)
		for _, err := range errs {
			if err != nil {
				return err // the client reports it
			}
		}
	}
	return nil
}
