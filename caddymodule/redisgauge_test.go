package caddymodule_test

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// storeWorks returns the metric caddy_tollgate_store_works.
func storeWorks(t *testing.T) float64 {
	t.Helper()
	active := caddy.ActiveContext()
	families, err := active.GetMetricsRegistry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "caddy_tollgate_store_works" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("there is no metric caddy_tollgate_store_works")
	return 0
}

// TestRedisGauge: the metric tells the state of the store that the
// configuration uses, also if the one before closes later than this one works.
func TestRedisGauge(t *testing.T) {
	server, next := redistest.Start(t), redistest.Start(t)
	loadRedis(t, server.URL())
	works := func() bool { return storeWorks(t) == 1 }
	eventually(t, "a metric of a store that works", works)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a metric of a store that does not work", func() bool { return !works() })
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a metric of a store that works again", works)

	// A call that must be written makes it slow to close the store.
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	db, err := app(t).Store()
	if err != nil {
		t.Fatal(err)
	}
	db.Record(store.Record{Account: "acc_1", Handle: 1, At: time.Now()})
	if err := load(onRedis(next.URL())); err != nil {
		t.Fatal(err)
	}
	awaitStore(t)
	eventually(t, "a metric of the next store", works)
}
