package redisstore_test

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// BenchmarkTake measures the processor time that the server needs for a call.
// Three gates send calls of 100 accounts, with 64 callers together.
func BenchmarkTake(b *testing.B) {
	limits := []store.Limit{
		{Endpoint: "convert", Period: store.Day, Max: 1e12}, {Endpoint: "convert", Period: store.Month, Max: 1e12},
		{Endpoint: store.All, Period: store.Month, Max: 1e12}, {Endpoint: store.All, Period: store.Second, Max: 1e12},
	}
	for _, appendOnly := range []string{"no", "yes"} {
		for _, count := range []int{1, 4} {
			b.Run(fmt.Sprintf("appendonly=%s/limits=%d", appendOnly, count), func(b *testing.B) {
				benchmarkTake(b, appendOnly, limits[:count])
			})
		}
	}
}

func benchmarkTake(b *testing.B, appendOnly string, limits []store.Limit) {
	const gates, accounts, callers = 3, 100, 64
	server := redistest.Start(b, "appendonly "+appendOnly, "appendfsync everysec")
	stores := make([]*redisstore.Store, gates)
	for n := range stores {
		stores[n] = openStore(b, redisstore.Options{URL: server.URL()})
	}
	for n := range accounts {
		check(b, put(b, stores[0], fmt.Sprintf("acc_%d", n)))
	}
	before := processorTime(b, server)
	b.ResetTimer()
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			rooms := make([]store.Room, len(limits))
			for n := caller; n < b.N; n += callers {
				call := store.Call{Account: fmt.Sprintf("acc_%d", n%accounts), Endpoint: "convert", Day: today(), Cost: 1}
				if admitted, err := stores[n%gates].Take(b.Context(), call, limits, rooms); err != nil || !admitted {
					b.Errorf("take: got %v, %v", admitted, err)
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric((processorTime(b, server)-before)/float64(b.N)*1e6, "server-µs/call")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// processorTime returns the processor time of the server, in seconds.
func processorTime(b *testing.B, server *redistest.Server) (seconds float64) {
	b.Helper()
	for _, field := range regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([0-9.]+)`).FindAllStringSubmatch(do(b, server, "INFO", "cpu").(string), -1) {
		used, err := strconv.ParseFloat(field[1], 64)
		check(b, err)
		seconds += used
	}
	return seconds
}
