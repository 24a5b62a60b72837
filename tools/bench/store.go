package main

import (
	"cmp"
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
	rows := []row{
		{what: fmt.Sprintf("memory per account, %d with a key and a count", b.accounts), target: atMost(300), unit: asBytes},
		{what: "  with a limit of the day and of the month", target: atMost(350), unit: asBytes},
	}
	for range b.repeats {
		for i, periods := range [][]store.Period{{store.Day}, {store.Day, store.Month}} {
			before := heap()
			l, err := fillLedger(ctx, b.accounts, periods...)
			if err != nil {
				return nil, err
			}
			rows[i].measured = append(rows[i].measured, float64(heap()-before)/float64(b.accounts))
			runtime.KeepAlive(l)
		}
	}
	return rows, nil
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
	dir := filepath.Join(b.dir, "large")
	tokens, err := restoreStore(ctx, dir, b.accounts, 1, b.repeats)
	if err != nil {
		return nil, err
	}
	var took, hashes values
	for _, token := range tokens[:b.repeats] {
		before, began := hashTime(), time.Now()
		next := answers{token, http.StatusOK, fmt.Sprintf(";r=%d;", ampleLimit-storedCalls-1)}
		c, err := b.startOn(ctx, badger(dir, "sync off"), proxyTo(b.upstream), next)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(began)))
		hashes = append(hashes, (before+hashTime())/2)
		if err := c.stop(); err != nil {
			return nil, err
		}
	}
	perAccount := valuesOf(took, func(v float64) float64 { return v / float64(b.accounts) })
	return []row{
		{what: fmt.Sprintf("start with %d accounts, a key and a count each", b.accounts), unit: asSecs, measured: took},
		{what: "  for each account", target: atMost(38), unit: asNanos, in: inH(hashes), measured: perAccount},
	}, nil
}

// storedCalls are the calls of an account in each of its counts.
const storedCalls = 1000

// restoreStore makes a store of accounts with a key and counts of so many
// days, and returns the tokens of some accounts, evenly distributed.
func restoreStore(ctx context.Context, dir string, accounts, days, callers int) (tokens []string, err error) {
	day, err := today()
	if err != nil {
		return nil, err
	}
	err = benchtest.RestoreBadger(dir, func(yield func(book.Piece, error) bool) {
		for i := range accounts {
			a, token, err := newAccount(accountID(i), planFour)
			err = cmp.Or(err, ctx.Err())
			if !yield(book.Piece{Document: a}, err) || err != nil {
				return
			}
			if i%max(1, accounts/callers) == 0 {
				tokens = append(tokens, token)
			}
			for n := range days {
				count := store.Count{Day: day - calendar.Day(n), Endpoint: "convert", Used: storedCalls}
				if !yield(book.Piece{Count: &store.StoredCount{Account: a.ID, Count: count}}, nil) {
					return
				}
			}
		}
	})
	return tokens, err
}

// newAccount makes an account with a key, and returns the token.
func newAccount(id, plan string) (*book.Account, string, error) {
	t, key, err := newKey()
	now := time.Now()
	return &book.Account{
		Account: store.Account{ID: id, Plan: plan, Label: "somebody@example.com", CreatedAt: now}, Exists: true,
		Keys: []*book.Key{{Hash: t.Hash(), Key: store.Key{
			ID: key, Account: id, Kind: token.Key, Name: "bench", Abilities: []string{"convert"}, Hint: token.Hint(t.Reveal()), CreatedAt: now,
		}}},
	}, t.Reveal(), err
}
