package redisstore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// running returns the calls of a list of the account.
func running(t testing.TB, s *gate, list string) int64 {
	t.Helper()
	got, err := s.Running(t.Context(), account, []string{list})
	check(t, err)
	return got[0]
}

// enter starts a call in lists with at most 2 calls, and returns nil if one is full.
func enter(t testing.TB, s *gate, lists ...string) func() {
	t.Helper()
	_, leave, err := s.Enter(t.Context(), account, lists, slices.Repeat([]int64{2}, len(lists)), 1)
	check(t, err)
	return leave
}

// TestRunningAfterKill: the calls of a gate that is gone expire, and those of a gate
// that works are renewed. All gates share a limit. A reply that is lost takes no
// room.
func TestRunningAfterKill(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	works, gone := openReady(t, redisstore.Options{URL: server.URL()}), openStore(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: time.Second})
	leave := enter(t, works, "chat", store.All)
	if enter(t, gone, "chat", store.All) == nil {
		t.Fatal("no room for a second call")
	}
	if enter(t, works, "chat") != nil || enter(t, gone, store.All) != nil {
		t.Error("a third call was admitted")
	}
	proxy.Refuse() // its calls are not renewed, as after a kill
	proxy.Cut()
	for deadline := time.Now().Add(3 * patience); running(t, works, "chat") > 1; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the call of a gate that is gone does not expire")
		}
	}
	if got := running(t, works, store.All); got != 1 {
		t.Errorf("%d calls run, want that of the gate that works", got)
	}
	check(t, proxy.Resume()) // the gate is back: its call runs
	await(t, "the call of the gate that is back", func() bool { return running(t, works, "chat") == 2 })
	leave()
	if got := running(t, works, "chat"); got != 1 {
		t.Errorf("%d calls run, want 1", got)
	}
}

// TestRunningLostReply: calls whose reply is lost leave their lists.
func TestRunningLostReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	s := openReady(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: time.Second})
	enter(t, s, "chat")()
	proxy.EatReplies()
	if _, leave, err := s.Enter(t.Context(), account, []string{"chat"}, []int64{2}, 2); err == nil || leave != nil {
		t.Errorf("got %v without a reply", err)
	}
	check(t, proxy.Resume())
	await(t, "the call to leave", func() bool {
		got, err := s.Running(t.Context(), account, []string{"chat"})
		return err == nil && got[0] == 0
	})
}

// TestRunningTraffic: a call that enters and one that leaves are a round trip each,
// all lists are in the slot of the account, and no list remains.
func TestRunningTraffic(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newFleet(t, redisstore.Options{URL: server.URL()})
	r := &trips{fleet: f, server: server}
	enter(t, f.gates[0], "chat", store.All)()
	check(t, server.Watch())
	leave := enter(t, f.gates[1], "chat", store.All)
	r.want("a call that enters", 1)
	for _, list := range []string{"chat", store.All} {
		key := fmt.Sprintf("tollgate:{%s}:r:%s", account, list)
		if ttl := do(t, server, "PTTL", key).(int64); ttl <= 0 {
			t.Errorf("%s has the TTL %d", key, ttl)
		}
	}
	check(t, server.Watch())
	leave()
	r.want("a call that leaves two lists", 2) // in one pipeline
	if keys := keysOf(t, server, "*:r:*"); len(keys) > 0 {
		t.Errorf("%q remain", keys)
	}
}
