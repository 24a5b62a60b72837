package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// measureStart starts the built Caddy on a large store and waits for the
// first call that is let through and counted on top of what the store
// knows. The store's files are in the system's cache, as they are when
// Caddy is restarted.
func measureStart(ctx context.Context, s *settings) (rows []row, err error) {
	o, err := startOrigin(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting the upstream: %w", err)
	}
	defer func() { err = errors.Join(err, o.stop()) }()
	dir := filepath.Join(s.dir, "large")
	tokens, err := makeStore(ctx, s, dir)
	if err != nil {
		return nil, fmt.Errorf("making a large store: %w", err)
	}
	control, err := freeAddresses(ctx, 1)
	if err != nil {
		return nil, err
	}
	config := gateConfig("start", dir, "sync off", o.address, control[0])
	var took, resident samples
	for i := range s.repeats {
		duration, memory, err := startOnce(ctx, s, config, tokens[i])
		if err != nil {
			return nil, err
		}
		took, resident = append(took, float64(duration)), append(resident, float64(memory.resident))
	}
	rows = []row{
		{what: fmt.Sprintf("start with %d accounts, a key and a count each", s.accounts), unit: asSecs, measured: took},
		{what: "  memory of Caddy (resident) after it", unit: asMiB, measured: resident},
	}
	if !s.quick {
		rows[0].bar = atMost(float64(5 * time.Second))
	}
	return rows, nil
}

// startOnce measures from the start of the process to the first good
// answer.
func startOnce(ctx context.Context, s *settings, config caddyConfig, token string) (took time.Duration, m memory, err error) {
	began := time.Now()
	c, err := launchCaddy(ctx, s, config)
	if err != nil {
		return 0, memory{}, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	// The store knows one call of each account, and this is the second.
	counted := fmt.Sprintf(";r=%d;", dailyLimit-2)
	err = c.await(ctx, token, func(r *http.Response) bool {
		return r.StatusCode == http.StatusOK && strings.Contains(r.Header.Get("RateLimit"), counted)
	})
	if err != nil {
		return 0, memory{}, err
	}
	took = time.Since(began)
	m, err = memoryOf(c.pid())
	return took, m, err
}

// makeStore fills a store the way a gate does, and returns the tokens of
// its last accounts, one for each start. Every account and every key is
// synced to the disk, which would take many minutes on a real one: the
// store is filled in memory, where the machine has a file system of that
// kind with space on it, and copied.
func makeStore(ctx context.Context, s *settings, dir string) (tokens []string, err error) {
	scratch, err := os.MkdirTemp("/dev/shm", "bench-")
	if err != nil {
		return fillStore(ctx, s, dir)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	tokens, err = fillStore(ctx, s, scratch)
	if errors.Is(err, store.ErrUnavailable) { // not enough space
		return fillStore(ctx, s, dir)
	}
	if err != nil {
		return nil, err
	}
	return tokens, os.CopyFS(dir, os.DirFS(scratch))
}

func fillStore(ctx context.Context, s *settings, dir string) (tokens []string, err error) {
	const space = 512 << 20 // more than a million accounts and their log need
	db, err := badgerstore.Open(dir, badgerstore.Options{Reserve: space})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for i := range s.accounts {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		secret, err := addAccount(ctx, db, accountID(i))
		if err != nil {
			return nil, err
		}
		if i >= s.accounts-s.repeats {
			tokens = append(tokens, secret)
		}
	}
	today, err := today()
	if err != nil {
		return nil, err
	}
	return tokens, addCounts(ctx, db, s.accounts, today)
}

// addAccount makes an account with a key and returns its token.
func addAccount(ctx context.Context, db store.Store, account string) (string, error) {
	now := time.Now()
	_, err := db.ChangeAccount(ctx, account, func(account *store.Account, _ bool) error {
		account.Plan, account.CreatedAt = planDaily, now
		return nil
	})
	if err != nil {
		return "", err
	}
	t, err := token.New(token.Key, rand.Reader)
	if err != nil {
		return "", err
	}
	id, err := token.NewID(rand.Reader)
	if err != nil {
		return "", err
	}
	key := store.Key{
		ID: id, Account: account, Kind: token.Key, Name: "bench", Abilities: []string{"convert"},
		Hint: token.Hint(t.Reveal()), CreatedAt: now,
	}
	return t.Reveal(), db.CreateKey(ctx, key, t.Hash())
}

// addCounts takes one call from each account. Callers at the same time
// share their commits.
func addCounts(ctx context.Context, db store.Store, accounts int, day calendar.Day) error {
	const callers = 256
	failures := make([]error, callers)
	var group sync.WaitGroup
	for c := range callers {
		group.Go(func() {
			for i := c; i < accounts && failures[c] == nil && ctx.Err() == nil; i += callers {
				_, failures[c] = db.Take(ctx, store.Call{Account: accountID(i), Endpoint: "convert", Day: day}, []store.Limit{{Max: dailyLimit}}, make([]int64, 1))
			}
		})
	}
	group.Wait()
	return errors.Join(ctx.Err(), errors.Join(failures...))
}
