package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

const accountKey = "tollgate:{" + account + "}:a"

// owner returns the server of a cluster that has a key.
func owner(t *testing.T, cluster *redistest.Cluster, key string) *redistest.Server {
	t.Helper()
	server, err := cluster.Owner(key)
	check(t, err)
	return server
}

// halve begins to move the slot of the account, and moves the first of its
// keys.
func halve(t *testing.T, cluster *redistest.Cluster) *redistest.Move {
	t.Helper()
	to := cluster.Servers[0]
	if owner(t, cluster, accountKey) == to {
		to = cluster.Servers[1]
	}
	move, err := cluster.BeginMove(accountKey, to)
	check(t, err)
	check(t, move.Keys(accountKey))
	return move
}

// TestTryAgain: a call during a move waits for its end, if its timeout allows
// that.
func TestTryAgain(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	f := newFleet(t, redisstore.Options{URL: cluster.URL()})
	f.take(0, f.call(), daily(9))
	half := halve(t, cluster)
	errs := make(chan error, len(f.gates))
	for _, gate := range f.gates {
		go func() {
			admitted, _, err := decide(t.Context(), gate, f.hash, f.call(), daily(9))
			if err == nil && !admitted {
				err = errRefused
			}
			errs <- err
		}()
	}
	await(t, "a call that was told to try again", func() bool {
		for _, server := range cluster.Servers {
			if strings.Contains(do(t, server, "INFO", "errorstats").(string), "TRYAGAIN") {
				return true
			}
		}
		return false
	})
	check(t, half.Finish())
	for range f.gates {
		if err := <-errs; err != nil {
			t.Errorf("a call during the move: %v", err)
		}
	}
	if got := f.used(0, f.call()); got != 4 {
		t.Errorf("counted %d calls, want 4", got)
	}
}

var errRefused = errors.New("refused")

// TestExactDespiteMovedSlot moves the slot of an account to another server and
// back under load. While its keys are on two servers, the old one answers
// TRYAGAIN, which counts nothing.
func TestExactDespiteMovedSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	f := newFleet(t, redisstore.Options{URL: cluster.URL(), Timeout: 2 * time.Second})
	p := f.start(f.call(), daily(1<<40))
	await(p, "calls", func() bool { return p.served() > 100 })
	half := halve(t, cluster)
	halved := p.served()
	await(p, "calls that fail", func() bool { return p.failed.Load()+p.unknown.Load() > 0 })
	if got := p.served() - halved; got > 3*callers {
		t.Errorf("served %d calls while the keys were on two servers", got)
	}
	check(t, half.Finish())
	await(p, "calls after the move", func() bool { return p.served() > halved+100*callers })
	back, err := cluster.BeginMove(accountKey, half.From)
	check(t, err)
	check(t, back.Finish())
	moved := p.served()
	await(p, "calls after the second move", func() bool { return p.served() > moved+100*callers })
	p.stop()
	counted, served := f.used(0, f.call()), p.served()
	t.Logf("%d calls served, %d counted; %d without a reply, %d not counted", served, counted, p.unknown.Load(), p.failed.Load())
	if lost := counted - served; lost < 0 || lost > p.unknown.Load() {
		t.Errorf("counted %d calls and served %d, %d had no reply", counted, served, p.unknown.Load())
	}

	const left = 100
	p = f.start(f.call(), daily(counted+left))
	p.finish(10 * left)
	if got, unknown := p.served(), p.unknown.Load(); got > left || got+unknown < left {
		t.Errorf("served %d calls after the moves, %d had no reply, want the %d that were left", got, unknown, left)
	}
}

// TestServerWithLayoutDown: without the server of a cluster that has the key
// with the layout, calls of accounts on other servers go on, also over new
// connections.
func TestServerWithLayoutDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "cluster-require-full-coverage no")
	other, prefix := owner(t, cluster, accountKey), "tollgate"
	for owner(t, cluster, prefix+":layout") == other {
		prefix += "-"
	}
	down := owner(t, cluster, prefix+":layout")
	s := openReady(t, redisstore.Options{URL: cluster.URL(), Prefix: prefix, Timeout: 2 * time.Second})
	check(t, down.Kill())
	do(t, other, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	await(t, "a call over a new connection", func() bool { return takeOne(t, s) == nil })
	for range 20 {
		check(t, takeOne(t, s))
	}
}
