package redisstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
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
			_, err := s.Failover()
			check(t, err)
			// Until then it still counts for stores that have not heard of the failover.
			check(t, master.AwaitReplica())
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t, 1)
			master := sentinel.Servers[0]
			f := newFleet(t, redisstore.Options{URL: sentinel.URL()})
			revoked := f.revoke(redisstore.Options{URL: sentinel.URL(), WaitReplicas: 1})
			p := f.start(f.call(), daily(1<<40))
			await(p, "calls", func() bool { return p.served() > 100 })
			test.fail(t, sentinel, master)
			_, err := sentinel.AwaitMaster(master)
			check(t, err)
			before := p.served()
			await(p, "calls after the failover", func() bool { return p.served() > before+3*callers })
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

// TestWaitReplicas: a change of an account is confirmed only if a replica has
// it. Calls are counted without one.
func TestWaitReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	url := server.URL()
	hash := newAccount(t, openStore(t, redisstore.Options{URL: url}), account)
	s := openStore(t, redisstore.Options{URL: url, WaitReplicas: 1, Timeout: time.Second})
	await(t, "a grant", func() bool {
		_, err := s.Grant(t.Context(), hash, s.now()) // caches it
		return err == nil
	})
	// A busy server may be too late to make the change.
	await(t, "a change without a replica", func() bool {
		_, err := storetest.PutAccount(t.Context(), s.Book, store.Account{ID: account, Plan: "pro"})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("a change without a replica: %v, want %v", err, store.ErrUnavailable)
		}
		return strings.Contains(err.Error(), "too few replicas have the change")
	})
	if err := s.RevokeKey(t.Context(), account, "key_"+account, time.Now()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a revocation without a replica: %v, want %v", err, store.ErrUnavailable)
	}
	await(t, "a call", func() bool { return takeOne(t, s) == nil })
	// The changes are made anyway. This gate does not use what it
	// cached before.
	if grant, err := s.Grant(t.Context(), hash, s.now()); err == nil && grant.Plan != "pro" {
		t.Errorf("got %+v, want the new plan or no grant", grant)
	}

	replica := redistest.Start(t)
	follow(t, replica, server)
	await(t, "a confirmed change", func() bool { return put(t, s, account) == nil })
}
