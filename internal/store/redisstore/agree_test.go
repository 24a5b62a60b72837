package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// orphan makes all pending marks so old that gates publish the queues.
func orphan(t testing.TB, server *redistest.Server) {
	t.Helper()
	for _, mark := range do(t, server, "ZRANGE", "tollgate:pending", "0", "-1").([]any) {
		do(t, server, "ZADD", "tollgate:pending", "XX", "1", mark.(string))
	}
}

// wantCounted checks that the log has each change of an account once, in their
// order, and no other.
func wantCounted(t testing.TB, s *gate, account string) (changes int) {
	t.Helper()
	a, err := s.Get(t.Context(), account)
	check(t, err)
	list, err := s.ListEntries(t.Context(), book.EntryFilter{Accounts: []string{account}}, store.EntryID{}, 1<<20)
	check(t, err)
	for i, e := range list {
		if e.Target != strconv.Itoa(i+1) {
			t.Fatalf("entry %d of %s is that of change %s", i+1, account, e.Target)
		}
	}
	if strconv.Itoa(len(list)) != a.Plan {
		t.Errorf("%s was changed %s times, the log has %d entries", account, a.Plan, len(list))
	}
	return len(list)
}

// TestLogAgrees changes accounts through three gates while their contexts end
// at any time, and the server or the network fails. No entry of the log is of a
// change that was not made, and each change has its entry and its event.
func TestLogAgrees(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		name string
		run  func(testing.TB, *redistest.Server, *redistest.Proxy)
	}{
		{"Contexts", func(testing.TB, *redistest.Server, *redistest.Proxy) {}},
		{"ServerIsKilled", func(t testing.TB, s *redistest.Server, _ *redistest.Proxy) {
			check(t, s.Kill())
			check(t, s.Restart())
		}},
		{"RepliesAreCut", func(t testing.TB, _ *redistest.Server, p *redistest.Proxy) {
			dials := p.Dials()
			p.CutReplies(2)
			await(t, "new connections", func() bool { return p.Dials() > dials+2 })
			check(t, p.Resume())
		}},
		{"ConnectionsAreCut", func(_ testing.TB, _ *redistest.Server, p *redistest.Proxy) { p.Cut() }},
	} {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "appendonly yes", "appendfsync always")
			proxy := redistest.StartProxy(t, server.Addr())
			var gates []*gate
			for range 3 {
				gates = append(gates, openStore(t, redisstore.Options{URL: "redis://" + proxy.Addr(), Timeout: 500 * time.Millisecond}))
			}
			began := time.Now().Add(-time.Hour)
			changes := int64(times(4000))
			var made, failed atomic.Int64
			var changing sync.WaitGroup
			for client := range 6 {
				changing.Go(func() {
					s := gates[client%len(gates)]
					for made.Load() < changes {
						account := fmt.Sprint("acc_", rand.IntN(4))
						ctx, cancel := context.WithTimeout(t.Context(), rand.N(5*time.Millisecond))
						if rand.IntN(2) == 0 {
							ctx = t.Context()
						}
						err := s.ChangeOne(ctx, s.now(), account, redisstore.NextPlan(s.redis))
						cancel()
						switch {
						case err == nil:
							made.Add(1)
						case errors.Is(err, store.ErrUnavailable):
							failed.Add(1)
							time.Sleep(time.Millisecond) // a server that is away fails changes at once
						default:
							t.Errorf("a change: %v", err)
						}
					}
				})
			}
			for part := range int64(3) {
				await(t, "changes", func() bool { return made.Load() > changes*(part+1)/5 })
				fault.run(t, server, proxy)
			}
			changing.Wait()

			orphan(t, server)
			await(t, "the log", func() bool { return do(t, server, "EXISTS", "tollgate:pending") == int64(0) })
			reader := openStore(t, redisstore.Options{URL: server.URL(), Timeout: 10 * time.Second}) // also on a busy machine
			total := 0
			for i := range 4 {
				total += wantCounted(t, reader, fmt.Sprint("acc_", i))
			}
			t.Logf("%d changes were confirmed, %d failed, %d were made", made.Load(), failed.Load(), total)
			if int64(total) < made.Load() || int64(total) > made.Load()+failed.Load() {
				t.Errorf("%d changes were made, of %d confirmed and %d failed ones", total, made.Load(), failed.Load())
			}
			if left := keysOf(t, server, "*:o"); len(left) > 0 {
				t.Errorf("%v are left", left)
			}
			events := 0
			for more := true; more; {
				var added []store.Event
				var err error
				added, more, err = event.NewQueue(reader.Book).Follow(t.Context(), began, func(e store.Entry) []store.Event {
					return []store.Event{{ID: e.Account + " " + e.Target, At: e.At, Known: e.At.Add(time.Hour)}}
				})
				check(t, err)
				events += len(added)
			}
			if events != total {
				t.Errorf("%d events of %d changes", events, total)
			}
		})
	}
}

// TestLogCannotBeWritten: a change is confirmed while the log cannot be written,
// for example because its server of a cluster is down. Its entry follows.
func TestLogCannotBeWritten(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "user gate on >secret ~* &* +@all")
	var log journal
	s := openReady(t, redisstore.Options{URL: "redis://gate:secret@" + server.Addr(), Logger: log.logger()})
	do(t, server, "ACL", "SETUSER", "gate", "resetkeys", "~tollgate:{*", "~tollgate:pending", "~tollgate:layout", "~tollgate:check", "~tollgate:accounts")
	for range 3 {
		check(t, s.ChangeOne(t.Context(), s.now(), "acc_2", redisstore.NextPlan(s.redis)))
	}
	if got := log.count("writing the audit log; it is written later"); got != 3 {
		t.Errorf("%d lines about the log, want 3", got)
	}
	orphan(t, server)
	await(t, "a line of the other gates", func() bool { return log.has("writing the audit log of other gates") })
	do(t, server, "ACL", "SETUSER", "gate", "allkeys")
	await(t, "the log", func() bool { return do(t, server, "EXISTS", "tollgate:pending") == int64(0) })
	if got := wantCounted(t, s, "acc_2"); got != 3 {
		t.Errorf("%d changes, want 3", got)
	}
}
