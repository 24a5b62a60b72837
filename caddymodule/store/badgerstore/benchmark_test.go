package badgerstore

import (
	"crypto/sha256"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

var (
	benchmarkNow = time.Now()
	benchmarkDay = calendar.Day(benchmarkNow.Unix() / 86400)
)

// BenchmarkTake is the durable count, by as many callers as there are.
func BenchmarkTake(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, callers := range []int{1, 16, 256} {
			b.Run(fmt.Sprintf("sync=%v/callers=%d", sync, callers), func(b *testing.B) {
				benchmarkTake(b, callers, Options{Sync: sync})
			})
		}
	}
}

func benchmarkTake(b *testing.B, callers int, o Options) {
	s, err := Open(b.TempDir(), o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const accounts = 10_000
	calls := make([]store.Call, accounts)
	for i := range calls {
		calls[i] = store.Call{Account: fmt.Sprintf("acc_%016d", i), Endpoint: "convert", Day: benchmarkDay}
	}
	b.ReportAllocs()
	var next atomic.Int64
	var running sync.WaitGroup
	b.ResetTimer()
	for range callers {
		running.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				if admitted, err := s.Take(b.Context(), calls[n*7919%accounts], nil, nil); !admitted {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

// BenchmarkOpen opens a store of a million accounts with a key and a
// count each, until it has admitted a call.
func BenchmarkOpen(b *testing.B) {
	const accounts = 1_000_000
	dir := b.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	for n := 0; n < accounts; n += batch {
		if err := populate(s, n, batch); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	perAccount := 0.0
	for b.Loop() {
		s, err := Open(dir, Options{})
		if err != nil {
			b.Fatal(err)
		}
		call := store.Call{Account: "acc_0000000000000001", Endpoint: "convert", Day: benchmarkDay}
		if used, admitted, err := TakeDaily(s, call, 1); used != 1 || admitted || err != nil {
			b.Fatalf("take: got %d, %v, %v", used, admitted, err)
		}
		b.StopTimer()
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		perAccount = float64(stats.HeapAlloc) / accounts
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(perAccount, "B/account")
}

// populate writes accounts with a key and a count each, as they would have
// been made one by one.
func populate(s *Store, first, n int) error {
	var changes []change
	for i := first; i < first+n; i++ {
		account := fmt.Sprintf("acc_%016d", i)
		key := keyRow{Key: store.Key{
			ID: fmt.Sprintf("key_%016d", i), Account: account, Kind: token.Key, Name: "production",
			Abilities: []string{"convert", "rates"}, Hint: "tgk_…abcd", CreatedAt: benchmarkNow,
		}, hash: sha256.Sum256([]byte(account))}
		changes = append(changes, key.change(), change{
			key: accountKey(account), value: encodeAccount(store.Account{Plan: "starter", CreatedAt: benchmarkNow}),
		}, countRow(appendCountKey(nil, benchmarkDay, account, "convert"), 1))
	}
	return s.archive.write(changes...)
}
