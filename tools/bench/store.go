package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/benchtest"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// measureSize fills a ledger and measures its heap.
func measureSize(ctx context.Context, b *bench) ([]row, error) {
	var perAccount, withMonth values
	for range b.repeats {
		before := heap()
		l, err := fillLedger(ctx, b.accounts, store.Day)
		if err != nil {
			return nil, err
		}
		perAccount = append(perAccount, float64(heap()-before)/float64(b.accounts))
		runtime.KeepAlive(l)
		before = heap()
		if l, err = fillLedger(ctx, b.accounts, store.Day, store.Month); err != nil {
			return nil, err
		}
		withMonth = append(withMonth, float64(heap()-before)/float64(b.accounts))
		runtime.KeepAlive(l)
	}
	what := fmt.Sprintf("memory per account, %d with a key and a count", b.accounts)
	onDisk, err := measureDisk(ctx)
	return append([]row{
		{what: what, target: b.unlessQuick(atMost(300)), unit: asBytes, measured: perAccount},
		{what: "  with a limit of the day and of the month", target: b.unlessQuick(atMost(350)), unit: asBytes, measured: withMonth},
	}, onDisk...), err
}

// unlessQuick returns a target of the large store, or none for a smaller
// store.
func (b *bench) unlessQuick(t target) target {
	if b.quick {
		return target{}
	}
	return t
}

// heap is the memory in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fillLedger creates accounts with a key and a count of one each, with limits
// of these periods.
func fillLedger(ctx context.Context, accounts int, periods ...store.Period) (benchtest.Ledger, error) {
	l := benchtest.NewLedger()
	day, err := today()
	if err != nil {
		return l, err
	}
	var limits []store.Limit
	for _, period := range periods {
		limits = append(limits, store.Limit{Endpoint: "convert", Period: period, Max: ampleLimit})
	}
	for i := range accounts {
		if ctx.Err() != nil {
			return l, ctx.Err()
		}
		t, id, err := newKey()
		if err != nil {
			return l, err
		}
		account := accountID(i)
		l.Put(&store.Account{ID: account, Plan: planAmple}, id, t.Hash())
		call := store.Call{Account: account, Endpoint: "convert", Day: day}
		if _, err := l.Take(call, limits, make([]store.Room, len(limits))); err != nil {
			return l, err
		}
	}
	return l, nil
}

func accountID(i int) string { return fmt.Sprintf("acc_%d", i) }

// newKey returns the token and the id of a new key.
func newKey() (t token.Token, id string, err error) {
	if t, err = token.New(token.Key, rand.Reader); err != nil {
		return t, "", err
	}
	id, err = token.NewID(rand.Reader)
	return t, id, err
}

// today is the day on which the gates count.
func today() (calendar.Day, error) {
	c, err := calendar.New(utc)
	if err != nil {
		return 0, err
	}
	return c.At(time.Now()).Day, nil
}

// measureStart starts the built Caddy on a large store and waits for the
// first admitted call, counted on top of the stored count. The files of the
// store are in the system's cache, as after a restart of Caddy.
func measureStart(ctx context.Context, b *bench) ([]row, error) {
	upstream, err := b.startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "large")
	tokens, err := restoreStore(ctx, dir, b.accounts, 1, b.repeats)
	if err != nil {
		return nil, err
	}
	config, err := gateConfig(ctx, badger(dir, "sync off"), utc, proxyTo(upstream))
	if err != nil {
		return nil, err
	}
	var took, hashes, resident values
	for _, token := range tokens[:b.repeats] {
		before, began := hashTime(), time.Now()
		next := answers{token, http.StatusOK, fmt.Sprintf(";r=%d;", ampleLimit-storedCalls-1)}
		c, err := b.startCaddy(ctx, config, next)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began)))
		hashes = append(hashes, (before+hashTime())/2)
		_, memory, err := usageOf(c.pid())
		if err != nil {
			return nil, err
		}
		resident = append(resident, memory.resident)
		if err := c.stop(); err != nil {
			return nil, err
		}
	}
	perAccount := valuesOf(took, func(v float64) float64 { return v / float64(b.accounts) })
	what := fmt.Sprintf("start with %d accounts, a key and a count each", b.accounts)
	return []row{
		{what: what, unit: asSecs, measured: took},
		{what: "  for each account", target: b.unlessQuick(atMost(38)), unit: asNanos, in: inH(hashes), measured: perAccount},
		{what: "  memory of Caddy (resident) after it", unit: asMiB, measured: resident},
	}, nil
}

// restoreStore makes a store of accounts with a key and counts of so many
// days, and returns the tokens of some accounts, evenly distributed.
func restoreStore(ctx context.Context, dir string, accounts, days, callers int) (tokens []string, err error) {
	every := max(1, accounts/callers)
	err = benchtest.RestoreBadger(dir, accountPieces(ctx, accounts, days, func(i int, token string) {
		if i%every == 0 {
			tokens = append(tokens, token)
		}
	}))
	if err != nil {
		return nil, fmt.Errorf("creating a store: %w", err)
	}
	return tokens, nil
}

// createAccount creates an account with a key and returns its token.
func createAccount(ctx context.Context, db *benchtest.Store, account, plan string) (string, error) {
	now := time.Now()
	t, id, err := newKey()
	if err != nil {
		return "", err
	}
	key := store.Key{
		ID: id, Account: account, Kind: token.Key, Name: "bench", Abilities: []string{"convert"},
		Hint: token.Hint(t.Reveal()), CreatedAt: now,
	}
	return t.Reveal(), db.ChangeOne(ctx, now, account, func(a *book.Account) error {
		a.Exists, a.Plan, a.CreatedAt = true, plan, now
		return a.Create(book.Key{Key: key, Hash: t.Hash()})
	})
}
