package redisstore_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// follow makes a server a replica of another one.
func follow(t testing.TB, server, master *redistest.Server) {
	t.Helper()
	host, port, err := net.SplitHostPort(master.Addr())
	check(t, err)
	_, err = server.Do("REPLICAOF", host, port)
	check(t, err)
}

func setPolicy(t testing.TB, server *redistest.Server, policy string) {
	t.Helper()
	_, err := server.Do("CONFIG", "SET", "maxmemory-policy", policy)
	check(t, err)
}

// prepare creates the account on a server, whatever its policy is.
func prepare(t testing.TB, server *redistest.Server) {
	t.Helper()
	s := openStore(t, redisstore.Options{URL: server.URL(), AllowEviction: true})
	newAccount(t, s, account)
	check(t, s.Close())
}

// uncounted fails the test if a server has counted calls.
func uncounted(t testing.TB, server *redistest.Server) {
	t.Helper()
	keys, err := server.Do("KEYS", "*:u:*")
	check(t, err)
	for _, key := range keys.([]any) {
		counts, err := server.Do("HGETALL", key.(string))
		check(t, err)
		t.Errorf("a server that must not be used has counted: %v", counts)
	}
}

// clients calls with many goroutines until the function that it returns is
// called.
func clients(t testing.TB, s *redisstore.Store) (served *atomic.Int64, stop func()) {
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
// address leads to the new master.
func TestReplicaBehindAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		cut  bool // whether the old master closes its connections
	}{{"OldConnections", false}, {"NewConnections", true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			old, next := redistest.Start(t), redistest.Start(t)
			prepare(t, old)
			prepare(t, next)
			address := startRelay(t, old.Addr(), 0)
			s := openStore(t, redisstore.Options{URL: address.url()})
			works(t, s)
			follow(t, old, next)
			if test.cut {
				address.cut()
			}
			// The connection is made, and is not used.
			refuses(t, s, "the server is a replica")
			address.lead(next.Addr())
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
	await(t, "the data of the master", func() bool {
		n, err := server.Do("EXISTS", accountKey)
		return err == nil && n == int64(1)
	})
	s := openAny(t, redisstore.Options{URL: server.URL()})
	refuses(t, s, "the server is a replica")
	_, err := server.Do("REPLICAOF", "NO", "ONE")
	check(t, err)
	works(t, s)
}

// TestFailoverToRefused: Sentinel chooses a new master that deletes keys. It
// counts nothing.
func TestFailoverToRefused(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1)
	check(t, sentinel.Hurry())
	master, err := sentinel.Master()
	check(t, err)
	s := openStore(t, redisstore.Options{URL: sentinel.URL()})
	newAccount(t, s, account)
	_, err = master.Do("WAIT", "1", "5000")
	check(t, err)
	for _, server := range sentinel.Servers {
		if server != master {
			setPolicy(t, server, "allkeys-lru")
		}
	}
	check(t, sentinel.Failover())
	next, err := sentinel.AwaitMaster(master)
	check(t, err)
	_, stop := clients(t, s)
	refuses(t, s, `maxmemory-policy "allkeys-lru"`)
	stop()
	uncounted(t, next)
	setPolicy(t, next, "noeviction")
	works(t, s)
}

// TestReconnectToRefused: all connections end under load, and new ones lead to
// a server that must not be used. It counts nothing.
func TestReconnectToRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, command, reason string }{
		{"Layout", "SET tollgate:layout 2", `its data has layout "2"`},
		{"Policy", "CONFIG SET maxmemory-policy allkeys-lru", `maxmemory-policy "allkeys-lru"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			first, second := redistest.Start(t), redistest.Start(t)
			prepare(t, first)
			prepare(t, second)
			_, err := second.Do(strings.Fields(test.command)...)
			check(t, err)
			address := startRelay(t, first.Addr(), 0)
			s := openStore(t, redisstore.Options{URL: address.url()})
			served, stop := clients(t, s)
			await(t, "calls", func() bool { return served.Load() > 100 })
			address.lead(second.Addr())
			address.cut()
			refuses(t, s, test.reason)
			stop()
			uncounted(t, second)
		})
	}
}

// TestPolicyChanges: a server that begins to delete keys is not used any more,
// also while it does not answer.
func TestPolicyChanges(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := openStore(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 100 * time.Millisecond})
	newAccount(t, s, account)
	works(t, s)
	setPolicy(t, server, "allkeys-lru")
	const reason = `maxmemory-policy "allkeys-lru"`
	refuses(t, s, reason)
	proxy.Stall()
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; time.Sleep(10 * time.Millisecond) {
		if err := takeOne(t, s); err == nil || !strings.Contains(err.Error(), reason) {
			t.Fatalf("a call to a refused server that does not answer: %v", err)
		}
	}
	check(t, proxy.Resume())
	refuses(t, s, reason)
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
		_, err := server.Do("CONFIG", "SET", "cluster-node-timeout", "60000")
		check(t, err)
	}
	// The one that has the layout and the list of accounts.
	owner := func(key string) *redistest.Server {
		slot, err := cluster.Slot(key)
		check(t, err)
		server, err := cluster.Owner(slot)
		check(t, err)
		return server
	}
	stalled := owner("tollgate:layout")
	s := openStore(t, redisstore.Options{URL: cluster.URL(), Timeout: time.Second})
	var healthy, others []string
	for i := range 12 {
		id := fmt.Sprintf("acc_%d", i)
		newAccount(t, s, id)
		if owner("tollgate:{"+id+"}:a") == stalled {
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
	began := time.Now()
	const length = 2500 * time.Millisecond
	for _, id := range healthy {
		calls.Go(func() {
			for ; time.Since(began) < length; time.Sleep(10 * time.Millisecond) {
				if err := take(id); err != nil {
					t.Errorf("a call of %s, whose server works: %v", id, err)
					return
				}
			}
		})
	}
	for _, id := range others {
		calls.Go(func() {
			for ; time.Since(began) < length; time.Sleep(10 * time.Millisecond) {
				if err := take(id); !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("a call of %s, whose server does not answer: %v", id, err)
					return
				}
			}
		})
	}
	calls.Wait()
	check(t, stalled.Resume())
	for _, id := range others {
		await(t, "calls of "+id, func() bool { return take(id) == nil })
	}
}
