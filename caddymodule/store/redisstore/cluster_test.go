package redisstore_test

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// TestExactDespiteMovedSlot moves the slot of an account to another server
// under load. While its keys are on two servers, the old one answers TRYAGAIN,
// which counts nothing.
func TestExactDespiteMovedSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	f := newFleet(t, redisstore.Options{URL: cluster.URL(), Timeout: 500 * time.Millisecond})
	most := int64(times(20_000))
	slot, err := cluster.Slot("tollgate:{" + account + "}:a")
	check(t, err)
	p := f.start(f.call(), daily(most))
	p.await("calls", func() bool { return p.served() > most/10 })

	from, err := cluster.Owner(slot)
	check(t, err)
	to := cluster.Servers[0]
	if from == to {
		to = cluster.Servers[1]
	}
	move, err := cluster.BeginMove(slot, from, to)
	check(t, err)
	check(t, move.Keys("tollgate:{"+account+"}:a"))
	halved := p.served()
	p.await("calls that fail", func() bool { return p.failed.Load()+p.unknown.Load() > 0 })
	if p.served() > halved+3*callers {
		t.Errorf("served %d calls while the keys were on two servers", p.served()-halved)
	}
	check(t, move.Finish())
	p.await("calls after the move", func() bool { return p.served() > halved+3*callers })
	check(t, cluster.MoveSlot(slot, to, from))
	p.finish(10 * most)

	counted, served := f.used(0, f.call()), p.served()
	t.Logf("%d of %d calls served, of them %d before the move; %d counted; %d without a reply, %d not counted",
		served, most, halved, counted, p.unknown.Load(), p.failed.Load())
	if served > most || counted != most || counted-served > p.unknown.Load() {
		t.Errorf("served %d calls and counted %d, want %d", served, counted, most)
	}
}

// TestServerWithLayoutDown: without the server of a cluster that has the key
// with the layout, calls of accounts on other servers go on, also over new
// connections.
func TestServerWithLayoutDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "cluster-require-full-coverage no")
	owner := func(key string) *redistest.Server {
		slot, err := cluster.Slot(key)
		check(t, err)
		server, err := cluster.Owner(slot)
		check(t, err)
		return server
	}
	other, prefix := owner("tollgate:{"+account+"}:a"), "tollgate"
	for owner(prefix+":layout") == other {
		prefix += "-"
	}
	down := owner(prefix + ":layout")
	s := openStore(t, redisstore.Options{URL: cluster.URL(), Prefix: prefix, Timeout: 2 * time.Second})
	check(t, putAccount(t, s))
	check(t, down.Kill())
	_, err := other.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	check(t, err)
	await(t, "a call over a new connection", func() bool { return takeOne(t, s) == nil })
	for range 20 {
		check(t, takeOne(t, s))
	}
}
