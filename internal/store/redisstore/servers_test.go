package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// follow makes a server a replica of another one.
func follow(t testing.TB, server, master *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	check(t, err)
	do(t, server, "REPLICAOF", host, port)
}

func setPolicy(t testing.TB, server *redistest.Server, policy string) {
	t.Helper()
	do(t, server, "CONFIG", "SET", "maxmemory-policy", policy)
}

// prepare creates the account on a server, whatever its policy is.
func prepare(t testing.TB, server *redistest.Server) {
	t.Helper()
	s := openReady(t, redisstore.Options{URL: server.URL(), AllowEviction: true})
	check(t, s.Close())
}

// uncounted fails the test if a server has counted calls.
func uncounted(t testing.TB, server *redistest.Server) {
	t.Helper()
	for _, key := range keysOf(t, server, "*:u:*") {
		t.Errorf("a server that must not be used has counted: %v", do(t, server, "HGETALL", key))
	}
}

// clients calls with many goroutines until the function that it returns is
// called.
func clients(t testing.TB, s *gate) (served *atomic.Int64, stop func()) {
	t.Helper()
	served = new(atomic.Int64)
	var ended atomic.Bool
	var running sync.WaitGroup
	for range 64 {
		running.Go(func() {
			for !ended.Load() {
				if takeOne(t, s) == nil {
					served.Add(1)
				} else {
					time.Sleep(time.Millisecond) // a refusal comes at once
				}
			}
		})
	}
	return served, func() {
		ended.Store(true)
		running.Wait()
	}
}

// TestReplicaBehindAddress: after a failover, an address leads to the old
// master for a while, which is a replica then. The store leaves it when the
// address leads to the new master. A store that may not run INFO logs a warning,
// and knows a replica by READONLY.
func TestReplicaBehindAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		cut    bool // whether the old master closes its connections
		right  string
		reason string
	}{
		{"OldConnections", false, "+info", "the server is a replica"},
		{"NewConnections", true, "+info", "the server is a replica"},
		{"WithoutInfo", false, "-info", "READONLY"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			user := "user gate on >secret ~* &* +@all " + test.right
			old, next := redistest.Start(t, user), redistest.Start(t, user)
			prepare(t, old)
			prepare(t, next)
			address := redistest.StartProxy(t, old.Addr())
			var log journal
			s := openStore(t, redisstore.Options{URL: "redis://gate:secret@" + address.Addr(), Logger: log.logger()})
			works(t, s)
			if got := log.has("may not run INFO"); got != (test.right == "-info") {
				t.Errorf("the log has a warning: %t", got)
			}
			dials := address.Dials()
			follow(t, old, next)
			if test.cut {
				address.Cut()
			}
			refuses(t, s, test.reason)
			await(t, "a new connection", func() bool { takeOne(t, s); return address.Dials() > dials })
			address.Lead(next.Addr())
			works(t, s)
		})
	}
}

// TestStartWithReplica: a store that starts with a replica works when the
// replica becomes a master.
func TestStartWithReplica(t *testing.T) {
	t.Parallel()
	master, server := redistest.Start(t), redistest.Start(t)
	prepare(t, master)
	follow(t, server, master)
	await(t, "the data of the master", func() bool { return do(t, server, "EXISTS", accountKey) == int64(1) })
	s := openAny(t, redisstore.Options{URL: server.URL()})
	refuses(t, s, "the server is a replica")
	do(t, server, "REPLICAOF", "NO", "ONE")
	works(t, s)
}

// TestReconnectToRefused: all connections end under load, and new ones lead to
// a server that must not be used. It counts nothing.
func TestReconnectToRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, command, reason string }{
		{"Layout", "SET tollgate:layout 1", `its data has layout "1"`},
		{"Policy", "CONFIG SET maxmemory-policy allkeys-lru", `maxmemory-policy "allkeys-lru"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			first, second := redistest.Start(t), redistest.Start(t)
			prepare(t, first)
			prepare(t, second)
			do(t, second, strings.Fields(test.command)...)
			address := redistest.StartProxy(t, first.Addr())
			s := openStore(t, redisstore.Options{URL: "redis://" + address.Addr()})
			served, stop := clients(t, s)
			await(t, "calls", func() bool { return served.Load() > 100 })
			address.Lead(second.Addr())
			address.Cut()
			refuses(t, s, test.reason)
			stop()
			uncounted(t, second)
		})
	}
}

// TestEviction: a server that deletes keys is refused, also if it begins to do
// that, and then also while it does not answer.
func TestEviction(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 100 * time.Millisecond})
	works(t, s)
	setPolicy(t, server, "allkeys-lru")
	const reason = `maxmemory-policy "allkeys-lru"`
	refuses(t, s, reason)
	refuses(t, openAny(t, redisstore.Options{URL: server.URL()}), reason)
	works(t, openStore(t, redisstore.Options{URL: server.URL(), AllowEviction: true}))
	proxy.Stall()
	dials := proxy.Dials()
	await(t, "a check that fails", func() bool {
		if err := takeOne(t, s); err == nil || !strings.Contains(err.Error(), reason) {
			t.Fatalf("a call to a refused server that does not answer: %v", err)
		}
		return proxy.Dials() > dials
	})
	check(t, proxy.Resume())
	setPolicy(t, server, "volatile-ttl")
	refuses(t, s, `maxmemory-policy "volatile-ttl"`)
	setPolicy(t, server, "noeviction")
	works(t, s)
}

// TestNoCluster: a server that is not part of a cluster is refused where the
// URL says that it is.
func TestNoCluster(t *testing.T) {
	t.Parallel()
	s := openAny(t, redisstore.Options{URL: strings.Replace(redistest.Start(t).URL(), "redis://", "redis+cluster://", 1)})
	refuses(t, s, "not part of a cluster")
}

// TestStalledNode: the accounts of the other servers of a cluster do not notice
// that one server does not answer.
func TestStalledNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, "cluster-require-full-coverage no")
	for _, server := range cluster.Servers {
		do(t, server, "CONFIG", "SET", "cluster-node-timeout", "60000")
	}
	stalled := owner(t, cluster, "tollgate:layout")
	s := openStore(t, redisstore.Options{URL: cluster.URL(), Timeout: time.Second})
	var healthy, others []string
	for i := range 12 {
		id := fmt.Sprintf("acc_%d", i)
		await(t, "an account", func() bool { return put(t, s, id) == nil })
		if owner(t, cluster, "tollgate:{"+id+"}:a") == stalled {
			others = append(others, id)
		} else {
			healthy = append(healthy, id)
		}
	}
	take := func(id string) error {
		_, err := s.Take(t.Context(), store.Call{Account: id, Endpoint: "convert", Day: today()}, nil, nil)
		return err
	}
	check(t, stalled.Pause())
	var calls sync.WaitGroup
	// Longer than two checks of the servers.
	for began := time.Now(); time.Since(began) < 2500*time.Millisecond; time.Sleep(25 * time.Millisecond) {
		for _, id := range others {
			calls.Go(func() {
				if err := take(id); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("a call of %s, whose server does not answer: %v", id, err)
				}
			})
		}
		for _, id := range healthy {
			calls.Go(func() {
				err := take(id)
				for range 5 { // on a busy machine a call can take more than a second
					if errors.Is(err, context.DeadlineExceeded) {
						err = take(id)
					}
				}
				if err != nil {
					t.Errorf("a call of %s, whose server works: %v", id, err)
				}
			})
		}
	}
	calls.Wait()
	check(t, stalled.Resume())
	for _, id := range others {
		await(t, "calls of "+id, func() bool { return take(id) == nil })
	}
}
