package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// measureSize fills a ledger and looks at what it adds to the heap.
func measureSize(ctx context.Context, s *settings) ([]row, error) {
	var perAccount samples
	for range s.repeats {
		before := heap()
		l, err := fillLedger(ctx, s.accounts)
		if err != nil {
			return nil, err
		}
		perAccount = append(perAccount, float64(heap()-before)/float64(s.accounts))
		runtime.KeepAlive(l)
	}
	r := row{what: fmt.Sprintf("memory per account, %d with a key and a count", s.accounts), unit: asBytes, measured: perAccount}
	if !s.quick {
		r.bar = atMost(400)
	}
	return []row{r}, nil
}

// heap is the size of what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// fillLedger makes accounts with a key and a count of one each, in memory.
func fillLedger(ctx context.Context, accounts int) (*ledger.Ledger, error) {
	l := ledger.New(nil)
	today, err := today()
	if err != nil {
		return nil, err
	}
	for i := range accounts {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		secret, err := token.New(token.Key, rand.Reader)
		if err != nil {
			return nil, err
		}
		id, err := token.NewID(rand.Reader)
		if err != nil {
			return nil, err
		}
		account := accountID(i)
		l.PutAccount(account, planDaily, false)
		l.PutToken(&ledger.Token{Hash: secret.Hash(), Account: account, ID: id, Name: "bench", Abilities: "convert"})
		if _, err := l.Take(store.Call{Account: account, Endpoint: "convert", Day: today}, []store.Limit{{Max: dailyLimit}}, make([]int64, 1)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func accountID(i int) string { return fmt.Sprintf("acc_%d", i) }

// today is the day on which gates of this program count.
func today() (calendar.Day, error) {
	c, err := calendar.New("UTC")
	if err != nil {
		return 0, err
	}
	return c.At(time.Now()).Day, nil
}
