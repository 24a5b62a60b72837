package ledger_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// populate returns a ledger with accounts that have a key and a count
// each, and the hashes of their tokens in no order.
func populate(accounts int) (*ledger.Ledger, []token.Hash) {
	l := ledger.New(nil)
	hashes := make([]token.Hash, accounts)
	for at, i := range rand.New(rand.NewPCG(1, 2)).Perm(accounts) {
		account := fmt.Sprintf("acc_%016d", i)
		hashes[at] = sha256.Sum256([]byte(account))
		l.PutAccount(&store.Account{ID: account, Plan: "starter"})
		l.PutToken(&ledger.Token{
			Hash: hashes[at], Account: account, ID: fmt.Sprintf("key_%016d", i), Name: "production",
			Abilities: "convert rates", ExpiresAt: now.Add(time.Hour),
		})
		_, _ = l.Take(store.Call{Account: account, Endpoint: "convert", Day: today}, nil, nil)
	}
	rand.Shuffle(accounts, func(i, j int) { hashes[i], hashes[j] = hashes[j], hashes[i] })
	return l, hashes
}

// rooms is memory for rooms, which callers keep with the call.
var rooms = sync.Pool{New: func() any { return new([4]store.Room) }}

// decide is what a call asks of the ledger.
func decide(l *ledger.Ledger, hash *token.Hash, limits []store.Limit) error {
	grant, err := l.Grant(hash, now)
	if err != nil {
		return err
	}
	left := rooms.Get().(*[4]store.Room)
	defer rooms.Put(left)
	_, err = l.Take(store.Call{Account: grant.Account, Endpoint: "convert", Day: today, At: now, Handle: grant.Handle}, limits, left[:len(limits)])
	return err
}

// four is a plan's limits of a day, a month, a month of all endpoints, and a
// pace.
var four = []store.Limit{
	{Period: store.Day, Max: store.Unlimited}, {Period: store.Month, Max: store.Unlimited},
	{Period: store.Month, Max: store.Unlimited, Endpoint: store.All}, {Period: store.Second, Max: 1e15},
}

// BenchmarkDecision is a grant and a take in memory, of accounts in no
// order. It reports what an account with a key and a count takes.
func BenchmarkDecision(b *testing.B) {
	for _, test := range []struct {
		accounts int
		limits   int
	}{{1, 1}, {1, 4}, {1e4, 1}, {1e4, 4}, {1e6, 1}} {
		accounts := test.accounts
		b.Run(fmt.Sprintf("accounts=%d/limits=%d", accounts, test.limits), func(b *testing.B) {
			before := heap()
			l, hashes := populate(accounts)
			size := float64(heap()-before)/float64(accounts) - float64(len(token.Hash{}))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := decide(l, &hashes[i], four[:test.limits]); err != nil {
					b.Fatal(err)
				}
				if i++; i == accounts {
					i = 0
				}
			}
			b.ReportMetric(size, "B/account")
		})
	}
}

// BenchmarkParallelDecision is the same from all processors at once.
func BenchmarkParallelDecision(b *testing.B) {
	const accounts = 1e4
	l, hashes := populate(accounts)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(accounts); pb.Next(); i = (i + 1) % accounts {
			if err := decide(l, &hashes[i], four[:1]); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// heap is what lives on the heap.
func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
