package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// startReplicated starts a server with a replica.
func startReplicated(t testing.TB) (server, replica *redistest.Server) {
	t.Helper()
	server, replica = redistest.Start(t), redistest.Start(t)
	follow(t, replica, server)
	await(t, "the replica", func() bool { return do(t, server, "WAIT", "1", "100") == int64(1) })
	return server, replica
}

// TestStalledChangeEnds: a change ends soon after its timeout if the server
// stops to answer before it is written, or while replicas are waited for.
func TestStalledChangeEnds(t *testing.T) {
	t.Parallel()
	server, replica := startReplicated(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr(), WaitReplicas: 1, Timeout: 500 * time.Millisecond})
	for _, test := range []struct {
		name       string
		stall, end func() error
	}{
		{"Network", func() error { proxy.Stall(); return nil }, proxy.Resume},
		{"Server", server.Pause, server.Resume},
		{"Replica", replica.Pause, replica.Resume},
	} {
		stalled := false
		_, err := s.ChangeAccount(t.Context(), account, func(*store.Account, bool) error {
			if stalled {
				return nil
			}
			stalled = true
			return test.stall()
		})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s stalled: got %v, want %v", test.name, err, store.ErrUnavailable)
		}
		check(t, test.end())
		await(t, "a confirmed change", func() bool { return put(t, s, account) == nil })
	}
}

// TestManyChangesAtOnce: changes that wait for replicas use few connections.
func TestManyChangesAtOnce(t *testing.T) {
	t.Parallel()
	server, _ := startReplicated(t)
	s := openStore(t, redisstore.Options{URL: server.URL(), WaitReplicas: 1})
	connections := func() int { return strings.Count(do(t, server, "CLIENT", "LIST").(string), " name=tollgate ") }
	var changes sync.WaitGroup
	for i := range 200 {
		changes.Go(func() {
			if err := put(t, s, fmt.Sprintf("acc_%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	changes.Wait()
	const most = 16 + 1 // and that of calls
	if got := connections(); got < 2 || got > most+4 {
		t.Errorf("%d connections, want at most %d, and some that look at the server", got, most)
	}
	await(t, "the end of other connections", func() bool { return connections() <= most })
}

// TestDeleteWithoutReplica: a deletion is confirmed only when a replica has it,
// also at the next tries, which find no account.
func TestDeleteWithoutReplica(t *testing.T) {
	t.Parallel()
	server, replica := startReplicated(t)
	s := openReady(t, redisstore.Options{URL: server.URL(), WaitReplicas: 1, Timeout: 600 * time.Millisecond})
	check(t, replica.Kill())
	closing := func() error {
		return s.CloseAccount(t.Context(), s.now(), account, today(), today(), func(*book.Account, []book.Bill) {})
	}
	// The reason is missing only if the server answers late.
	reasons := 0
	fails := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s without a replica: got %v, want %v", what, err, store.ErrUnavailable)
		} else if strings.Contains(err.Error(), "too few replicas have the change: 0 of 1") {
			reasons++
		} else {
			t.Log(err)
		}
	}
	await(t, "errors that say that replicas are missing", func() bool {
		fails("a deletion", closing())
		fails("a change", put(t, s, "acc_2"))
		return reasons > 2
	})
	check(t, replica.Restart())
	follow(t, replica, server) // it has no data on disk
	var err error
	await(t, "a confirmed deletion", func() bool {
		err = closing()
		return !errors.Is(err, store.ErrUnavailable)
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting it with a replica: got %v, want %v", err, store.ErrNotFound)
	}
	if n := do(t, replica, "EXISTS", accountKey); n != int64(0) {
		t.Errorf("the replica has %v accounts, want none", n)
	}
}

// TestCreditWithoutReplica: a credit is confirmed only when a replica has it, also
// by another gate, which finds it made.
func TestCreditWithoutReplica(t *testing.T) {
	t.Parallel()
	server, replica := startReplicated(t)
	o := redisstore.Options{URL: server.URL(), WaitReplicas: 1, Timeout: 600 * time.Millisecond}
	gates := []*gate{openReady(t, o), openReady(t, o)}
	await(t, "a call", func() bool { return takeOne(t, gates[0]) == nil })
	check(t, replica.Pause())
	credit := func(gate int) error {
		return gates[gate].Engine.Credit(t.Context(), account, nil, today(), "convert", 1)
	}
	for i := range gates {
		if err := credit(i); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("gate %d without a replica: got %v, want %v", i, err, store.ErrUnavailable)
		}
	}
	check(t, replica.Resume())
	await(t, "a confirmed credit", func() bool { return credit(1) == nil })
}

// TestChangeAfterMove: a change that waits for replicas finds an account whose
// slot is on another server since the last change. This cluster has no
// replicas: that is what the change must say, and not where the slot is.
func TestChangeAfterMove(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	s := openStore(t, redisstore.Options{URL: cluster.URL(), WaitReplicas: 1, Timeout: 2 * time.Second})
	newAccount(t, openStore(t, redisstore.Options{URL: cluster.URL()}), account)
	// The client asks for the slots once a second at most. A busy server may be
	// too late to tell the reason.
	err := context.DeadlineExceeded
	for began := time.Now(); errors.Is(err, context.DeadlineExceeded) && time.Since(began) < patience; {
		check(t, halve(t, cluster).Finish())
		err = s.RevokeKey(t.Context(), account, "key_"+account, time.Now())
	}
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "0 of 1") {
		t.Errorf("got %v, want %v without replicas", err, store.ErrUnavailable)
	}
}
