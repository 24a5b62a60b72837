package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// TestFailover kills the master, or asks for a failover, under load. The servers
// may lose calls that only one store has seen. But no store loses calls that it
// has admitted itself.
func TestFailover(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		fail func(t *testing.T, s *redistest.Sentinel, master *redistest.Server)
	}{
		{"MasterIsKilled", func(t *testing.T, _ *redistest.Sentinel, master *redistest.Server) { check(t, master.Kill()) }},
		{"Planned", func(t *testing.T, s *redistest.Sentinel, master *redistest.Server) {
			check(t, s.Failover())
			// Until then it still counts for stores that have not heard of the failover.
			check(t, s.AwaitReplica(master))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t, 1)
			check(t, sentinel.Hurry())
			master, err := sentinel.Master()
			check(t, err)
			f := newFleet(t, redisstore.Options{URL: sentinel.URL()})
			revoked := f.revoke(redisstore.Options{URL: sentinel.URL(), WaitReplicas: 1, Timeout: 10 * time.Second})
			p := f.start(f.call(), daily(1<<40))
			p.await("calls", func() bool { return p.served() > 100 })
			test.fail(t, sentinel, master)
			_, err = sentinel.AwaitMaster(master)
			check(t, err)
			before := p.served()
			p.await("calls after the failover", func() bool { return p.served() > before+3*callers })
			p.stop()
			var most int64
			for i, gate := range f.gates {
				await(t, "the store to work", func() bool { return gate.Check(t.Context()) == nil })
				most = max(most, p.admitted[i].Load())
				f.take(i, f.call(), daily(1<<40))
				if _, _, err := decide(t.Context(), gate, revoked, f.call(), daily(1<<40)); !errors.Is(err, store.ErrNoGrant) {
					t.Errorf("store %d: a revoked key: got %v, want %v", i, err, store.ErrNoGrant)
				}
			}
			counted, served := f.used(0, f.call())-6, p.served()
			t.Logf("%d calls served, %d of them lost; %d without a reply, %d not counted",
				served, max(0, served-counted), p.unknown.Load(), p.failed.Load())
			if counted < most {
				t.Errorf("counted %d calls, but one store admitted %d", counted, most)
			}
		})
	}
}

// revoke creates a key, calls with it through all stores, and revokes it. A
// replica has all of that.
func (f *fleet) revoke(o redisstore.Options) token.Hash {
	f.Helper()
	s := openStore(f, o)
	hash := newKey(f, s, account, "key_revoked")
	for _, gate := range f.gates {
		if _, _, err := decide(f.Context(), gate, hash, f.call(), daily(1<<40)); err != nil {
			f.Fatal(err)
		}
	}
	check(f, s.RevokeKey(f.Context(), account, "key_revoked", time.Now()))
	return hash
}

// TestLostWrites counts calls that no replica gets, and kills the master. The
// other stores continue from the highest count that they have seen.
func TestLostWrites(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t, 1)
	check(t, sentinel.Hurry())
	master, replica := sentinel.Servers[0], sentinel.Servers[1]
	f := newFleet(t, redisstore.Options{URL: sentinel.URL()})
	const most, replicated, lost, unseen = 300, 100, 100, 7
	limits := daily(most)
	for i := range replicated {
		f.take(i%3, f.call(), limits)
	}
	_, err := master.Do("WAIT", "1", "5000")
	check(t, err)

	// The replica cannot log in to the master again.
	_, err = replica.Do("CONFIG", "SET", "masterauth", "wrong")
	check(t, err)
	_, err = replica.Do("CLIENT", "KILL", "TYPE", "master")
	check(t, err)
	for i := range lost {
		f.take(i%3, f.call(), limits)
	}
	for range unseen {
		f.take(2, f.call(), limits)
	}
	check(t, f.gates[2].Close())
	f.gates = f.gates[:2]
	check(t, master.Kill())
	_, err = sentinel.AwaitMaster(master)
	check(t, err)
	count := f.used(0, f.call())
	if count > replicated+lost {
		t.Fatalf("the new master has %d calls, want %d", count, replicated)
	}
	// The first store has not seen the last calls of the others.
	p := f.start(f.call(), limits)
	p.finish(10 * most)
	total := replicated + lost + unseen + p.served()
	t.Logf("%d calls served, %d above the limit; the failover lost %d", total, total-most, lost+unseen)
	if over := total - most; over < unseen || over > unseen+2 {
		t.Errorf("%d calls above the limit, want the %d that no live store has seen, and at most 2 that one of them has not", over, unseen)
	}
}

// TestLostWritesOfRefused: a store that refuses a call tells the server what
// it has seen, so that other stores refuse as well.
func TestLostWritesOfRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newFleet(t, redisstore.Options{URL: server.URL()})
	take := func(times int) {
		for range times {
			f.take(0, f.call(), daily(10))
		}
	}
	take(5)
	counts := "tollgate:{" + account + "}:u:" + strings.ReplaceAll(f.day.String()[:7], "-", "")
	old, err := server.Do("DUMP", counts)
	check(t, err)
	take(5)
	_, err = server.Do("RESTORE", counts, "0", old.(string), "REPLACE") // loses 5 calls
	check(t, err)
	for gate := range f.gates {
		if f.take(gate, f.call(), daily(10)) {
			t.Errorf("store %d admitted a call above the limit", gate)
		}
	}
}

// TestLostReset: what a store has seen before a refund or a reset does not
// come back.
func TestLostReset(t *testing.T) {
	t.Parallel()
	f := newFleet(t, redisstore.Options{URL: redistest.Start(t).URL()})
	for i := range 30 {
		f.take(i%3, f.call(), daily(100))
	}
	check(t, f.gates[0].GiveBack(t.Context(), f.call()))
	for gate := range f.gates {
		if got := f.used(gate, f.call()); got != 29 {
			t.Errorf("store %d: %d calls after a refund, want 29", gate, got)
		}
	}
	check(t, f.gates[1].ResetCounts(t.Context(), account, "", f.day))
	for gate := range f.gates {
		f.take(gate, f.call(), daily(100))
		if got := f.used(gate, f.call()); got != int64(gate+1) {
			t.Errorf("store %d: %d calls after a reset, want %d", gate, got, gate+1)
		}
	}
}

// TestDemoted: a server that becomes a replica answers READONLY. The store
// connects again, because the address may lead to another server.
func TestDemoted(t *testing.T) {
	t.Parallel()
	server, master := redistest.Start(t), redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	f := newFleet(t, redisstore.Options{URL: "redis://" + proxy.Addr()})
	f.take(0, f.call(), daily(10))
	before := proxy.Dials()
	host, port, _ := strings.Cut(master.Addr(), ":")
	_, err := server.Do("REPLICAOF", host, port)
	check(t, err)
	_, err = f.gates[0].Take(t.Context(), f.call(), daily(10), make([]store.Room, 1))
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a call to a replica: %v, want READONLY", err)
	}
	await(t, "new connections", func() bool { return proxy.Dials() >= before+len(f.gates) })
	_, err = server.Do("REPLICAOF", "NO", "ONE")
	check(t, err)
	for _, gate := range f.gates {
		await(t, "the store to work", func() bool { return gate.Check(t.Context()) == nil })
	}
}

// TestWaitReplicas: a change of an account is confirmed only if a replica has
// it. Calls are counted without one.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	hash := newAccount(t, openStore(t, redisstore.Options{URL: url}), account)
	s := openStore(t, redisstore.Options{URL: url, WaitReplicas: 1, Timeout: 300 * time.Millisecond})
	_, err := s.Grant(t.Context(), hash, s.Now()) // caches it
	check(t, err)
	_, err = storetest.PutAccount(t.Context(), s, store.Account{ID: account, Plan: "pro"})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a change without a replica: %v, want %v", err, store.ErrUnavailable)
	}
	if err := s.RevokeKey(t.Context(), account, "key_"+account, time.Now()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a revocation without a replica: %v, want %v", err, store.ErrUnavailable)
	}
	_, err = s.Take(t.Context(), store.Call{Account: account, Endpoint: "convert", Day: today()}, daily(1), make([]store.Room, 1))
	check(t, err)
	// The changes are made anyway. This gate does not use what it
	// cached before.
	if grant, err := s.Grant(t.Context(), hash, s.Now()); err == nil && grant.Plan != "pro" {
		t.Errorf("got %+v, want the new plan or no grant", grant)
	}

	host, port, _ := strings.Cut(server.Addr(), ":")
	replica := redistest.Start(t, "replicaof "+host+" "+port)
	await(t, "the replica", func() bool {
		role, err := replica.Do("ROLE")
		state, _ := role.([]any)
		return err == nil && len(state) > 3 && state[3] == "connected"
	})
	await(t, "a confirmed change", func() bool {
		_, err := storetest.PutAccount(t.Context(), s, store.Account{ID: account, Plan: "max"})
		return err == nil
	})
}
