package event_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/outage/posttest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// shaky is an engine that takes no events while it fails. It can still have
// added them: then only the reply is lost.
type shaky struct {
	book.Engine
	fails   *atomic.Int64 // how often
	replies bool
	takes   *atomic.Int64 // how long a commit takes, as a time.Duration
}

func newShaky(fails int64) shaky {
	s := shaky{Engine: memstore.New(), fails: new(atomic.Int64), takes: new(atomic.Int64)}
	s.fails.Store(fails)
	return s
}

func (s shaky) Commit(ctx context.Context, batches ...book.Batch) (errs []error) {
	if batches[0].Space != book.EventSpace {
		return s.Engine.Commit(ctx, batches...)
	}
	time.Sleep(time.Duration(s.takes.Load()))
	if s.fails.Add(-1) < 0 {
		return s.Engine.Commit(ctx, batches...)
	}
	if s.replies {
		s.Engine.Commit(ctx, batches...)
	}
	return []error{store.ErrUnavailable}
}

// always is more calls than a test makes.
const always = 1 << 40

// record adds an entry to the audit log.
func record(t *testing.T, db *event.Queue, e store.Entry) {
	t.Helper()
	err := db.ChangeOne(t.Context(), e.At, "acc_1", func(a *book.Account) error {
		a.Exists = true
		a.Record(e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// changed is the entry of a change that has an event.
func changed() store.Entry {
	return store.Entry{At: time.Now(), Action: api.AccountSet, After: json.RawMessage(`{"plan":"free"}`)}
}

// TestStoreFails: an event that the store did not take is stored once when the
// store works, without another call.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for name, replies := range map[string]bool{"no event": false, "lost reply": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine, got := newShaky(always), new(emitted)
				engine.replies = replies
				db := over(t, engine)
				e := emitter(t, db, got)
				for range 3 {
					e.Reached(store.Quota(quota("acc_1", 80)))
				}
				record(t, db, changed())
				e.Follow()
				time.Sleep(time.Minute)
				engine.fails.Store(0)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				if n := len(queued(t, db)); n != 2 {
					t.Errorf("got %d events, want 2", n)
				}
				if !replies && len(got.get()) != 2 {
					t.Errorf("got %v, want both once", got.get())
				}
			})
		})
	}
}

// TestChanges makes the events of changes.
func TestChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := open(t)
		now := time.Now() // the start of 2000
		for _, e := range []store.Entry{
			{At: now.Add(-25 * time.Hour), Action: api.AccountCreate, After: json.RawMessage(`{"plan":"old"}`)},
			{At: now, Action: api.AccountCreate, After: json.RawMessage(`{"plan":"free","disabled":false}`)},
			{At: now, Action: api.KeyCreate, Target: "key_1", After: json.RawMessage(`{"name":"ci"}`)},
			{At: now, Action: api.KeyRotate, Target: "key_2", Before: json.RawMessage(`{"name":"ci"}`), After: json.RawMessage(`{"name":"ci"}`)},
			{At: now, Action: api.KeyRevoke, Target: "key_2", Before: json.RawMessage(`{"name":"ci"}`), After: json.RawMessage(`{"name":"ci"}`)},
			{At: now, Action: api.KeySet, Target: "key_2", After: json.RawMessage(`{"name":"ci"}`)},
			{At: now, Action: api.LoginRevoke, Target: "key_3", After: json.RawMessage(`{"name":"login"}`)},
			{At: now, Action: api.LimitSet, Target: "all/day", After: json.RawMessage(`{}`)},
			{At: now, Action: api.UsageReset},
			{At: now, Action: api.AccountSet, After: json.RawMessage(`not JSON`)}, // of another program
			{At: now, Action: api.AccountSet, Before: json.RawMessage(`{"plan":"gold","disabled":false,"plan_until":"1999-12-31T23:59:59Z"}`),
				After: json.RawMessage(`{"plan":"free","disabled":true}`)},
			{At: now.Add(time.Second), Action: api.AccountSet, Before: json.RawMessage(`{"plan":"gold","plan_until":"2000-01-01T00:00:02Z"}`),
				After: json.RawMessage(`{"plan":"gold","disabled":true}`)}, // an operator has cleared the end
			{At: now, Action: api.AccountDelete, Before: json.RawMessage(`{"plan":"free","disabled":true}`),
				After: json.RawMessage(`{"month":"2000-01","usage":[{"endpoint":"convert","calls":12,"credited":2}]}`)},
			{At: now, Action: api.KeyCreate, Target: "key_1", After: json.RawMessage(`{"name":"again"}`)}, // imported into the next account
		} {
			record(t, db, e)
		}
		emitter(t, db, new(emitted)).Follow()
		list := queued(t, db)
		var got []string
		for _, e := range list {
			got = append(got, string(e.Body))
		}
		slices.Sort(got)
		want := []string{
			`{"type":"tollgate.account_changed","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","deleted":true,"disabled":true,"month":"2000-01","plan":"free","usage":[{"endpoint":"convert","calls":12,"credited":2}]}}`,
			`{"type":"tollgate.account_changed","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","disabled":false,"plan":"free"}}`,
			`{"type":"tollgate.account_changed","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","disabled":true,"plan":"free"}}`,
			`{"type":"tollgate.account_changed","timestamp":"2000-01-01T00:00:01Z","data":{"account":"acc_1","disabled":true,"plan":"gold"}}`,
			`{"type":"tollgate.key_created","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","key":"key_1","name":"again"}}`,
			`{"type":"tollgate.key_created","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","key":"key_1","name":"ci"}}`,
			`{"type":"tollgate.key_revoked","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","key":"key_2","name":"ci"}}`,
			`{"type":"tollgate.key_rotated","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","key":"key_2","name":"ci"}}`,
			`{"type":"tollgate.plan_ended","timestamp":"2000-01-01T00:00:00Z","data":{"account":"acc_1","ended_at":"1999-12-31T23:59:59Z","plan":"gold","then":"free"}}`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		// Ids must never change: receivers recognize repetitions by them.
		for _, e := range list {
			id, body := map[string]string{event.KeyCreated: "evt_74ab5cf639c74bd7bb2eab4c507441b4", event.AccountChanged: "evt_8001ac1846c2a99c8320d4291510f371"}[e.Type], string(e.Body)
			if id != "" && !strings.Contains(body, `"disabled":true`) && !strings.Contains(body, "again") && e.ID != id {
				t.Errorf("got id %s, want %s: %s", e.ID, id, body)
			}
		}
	})
}

// TestLateEventIsNoError: an event that the store takes late, or at the second
// try, is a warning. One that is lost is an error.
func TestLateEventIsNoError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		fails int64
		want  zapcore.Level
	}{
		"late":       {5 * time.Second, 0, zap.InfoLevel},
		"second try": {0, 1, zap.WarnLevel},
		"lost":       {0, always, zap.ErrorLevel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.DebugLevel)
				engine := newShaky(c.fails)
				engine.takes.Store(int64(c.takes))
				e := event.NewEmitter(event.EmitterOptions{
					Queue: over(t, engine), Webhook: func() *event.Webhook { return nil }, Emit: new(emitted).add, Count: new(posttest.Counts).Add, Logger: zap.New(core),
				})
				e.Reached(store.Quota(quota("acc_1", 80)))
				time.Sleep(time.Minute)
				e.Close()
				worst := zap.DebugLevel
				for _, line := range logs.All() {
					worst = max(worst, line.Level)
				}
				if events := logs.FilterMessage("event").Len(); worst != c.want || events == 1 == (worst == zap.ErrorLevel) {
					t.Errorf("got level %v and %d events, want %v", worst, events, c.want)
				}
			})
		})
	}
}

// TestTooManyWait: if too many events wait for the store, the oldest are dropped
// and counted.
func TestTooManyWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, c := newShaky(always), new(posttest.Counts)
		db := over(t, engine)
		e := emitterWith(t, db, new(emitted), c, zap.NewNop())
		e.Reached(store.Quota(quota("first", 80)))
		synctest.Wait() // it is being stored
		const reached = store.MaxQueued + 2
		for i := range reached {
			e.Reached(store.Quota(quota(fmt.Sprint("acc_", i), 80)))
		}
		if c.Get(event.Dropped) != 2 {
			t.Errorf("%d events were dropped, want 2", c.Get(event.Dropped))
		}
		engine.fails.Store(0)
		e.Close()
		list := queued(t, db)
		has := func(account string) bool {
			return slices.ContainsFunc(list, func(e store.Event) bool { return bytes.Contains(e.Body, []byte(`"`+account+`"`)) })
		}
		if has("acc_0") || has("acc_1") || !has("acc_2") || !has(fmt.Sprint("acc_", reached-1)) {
			t.Errorf("got %d events, want all but the two that waited longest", len(list))
		}
	})
}

// TestClose: what waits is stored before the store is closed. What the store
// does not take within seconds is counted as dropped.
func TestClose(t *testing.T) {
	t.Parallel()
	const waiting = 3
	for name, c := range map[string]struct {
		works, hangs bool // during Close
	}{
		"works": {works: true},
		"fails": {},
		"hangs": {hangs: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				engine, count := newShaky(always), new(posttest.Counts)
				db := over(t, engine)
				e := emitterWith(t, db, new(emitted), count, zap.NewNop())
				for i := range waiting {
					e.Reached(store.Quota(quota("acc_"+strings.Repeat("x", i), 80)))
				}
				record(t, db, changed())
				time.Sleep(1500 * time.Millisecond)
				if c.hangs {
					engine.takes.Store(int64(10 * time.Second))
				}
				if c.works {
					engine.fails.Store(0)
				}
				began := time.Now()
				e.Close()
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("closing took %s", took)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				stored, dropped := 0, waiting
				if c.works {
					stored, dropped = waiting+1, 0 // with that of the change
				}
				n, _, err := db.QueuedEvents(t.Context())
				if err != nil || n != stored || count.Get(event.Dropped) != dropped {
					t.Errorf("got %d events, %v, and %d dropped; want %d and %d", n, err, count.Get(event.Dropped), stored, dropped)
				}
			})
		})
	}
}
