package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
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
		stores[n] = openStore(b, redisstore.Options{URL: server.URL(), Timeout: 10 * time.Second})
	}
	for n := range accounts {
		account := store.Account{ID: fmt.Sprintf("acc_%d", n), Plan: "starter"}
		if _, err := storetest.PutAccount(b.Context(), stores[0], account); err != nil {
			b.Fatal(err)
		}
	}
	today := calendar.Day(time.Now().Unix() / int64(24*time.Hour/time.Second))
	before := processorTime(b, server)
	b.ResetTimer()
	var group sync.WaitGroup
	for caller := range callers {
		group.Go(func() {
			rooms := make([]store.Room, len(limits))
			for n := caller; n < b.N; n += callers {
				call := store.Call{Account: fmt.Sprintf("acc_%d", n%accounts), Endpoint: "convert", Day: today, Cost: 1}
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
	info, err := server.Do("INFO", "cpu")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info.(string)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			used, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			seconds += used
		}
	}
	return seconds
}
