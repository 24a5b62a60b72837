package event_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/memstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// shaky is a store whose next calls of AddEvent fail. It can still have added
// the event: then only the reply is lost.
type shaky struct {
	store.Events
	fails   *atomic.Int64
	replies bool
}

func newShaky(fails int64) shaky {
	s := shaky{Events: remote{memstore.New()}, fails: new(atomic.Int64)}
	s.fails.Store(fails)
	return s
}

func (s shaky) AddEvent(ctx context.Context, e store.Event) (isNew bool, dropped int, err error) {
	if s.fails.Add(-1) < 0 {
		return s.Events.AddEvent(ctx, e)
	}
	if s.replies {
		_, _, err = s.Events.AddEvent(ctx, e)
	}
	return false, 0, errors.Join(store.ErrUnavailable, err)
}

// always is more calls than a test makes.
const always = 1 << 40

func changed(i int) event.Change {
	return event.Change{Type: event.AccountChanged, ID: strconv.Itoa(i), At: time.Now(), Account: "acc_1"}
}

// TestStoreFails: an event that the store did not take is stored once when the
// store works, without another call.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for name, replies := range map[string]bool{"no event": false, "lost reply": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, emitted := newShaky(always), []string{}
				db.replies = replies
				canceled, cancel := context.WithCancel(t.Context())
				cancel() // the client has gone
				e := emitter(t, from(db), &emitted)
				for range 3 {
					e.Reached(canceled, quota("acc_1", 80))
				}
				e.Publish(canceled, changed(1))
				time.Sleep(time.Minute)
				db.fails.Store(0)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if n := len(queued(t, db)); n != 2 {
					t.Errorf("got %d events, want 2", n)
				}
				if !replies && len(emitted) != 2 {
					t.Errorf("got %v, want both once", emitted)
				}
			})
		})
	}
}

// TestLateEventIsNoError: an event that the store takes late, or at the second
// try, is a warning. One that is lost is an error.
func TestLateEventIsNoError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		db   store.Events
		want zapcore.Level
	}{
		"late":       {slow{remote{memstore.New()}}, zap.WarnLevel},
		"second try": {newShaky(1), zap.WarnLevel},
		"lost":       {newShaky(always), zap.ErrorLevel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.DebugLevel)
				backlog := new(event.Backlog)
				e, err := event.NewEmitter(event.EmitterOptions{
					Store: from(c.db), Backlog: func() *event.Backlog { return backlog }, Queued: func(string) bool { return true },
					Dropped: func(int) {}, Emit: func(string, map[string]any) {}, Logger: zap.New(core),
				})
				if err != nil {
					t.Fatal(err)
				}
				e.Reached(t.Context(), quota("acc_1", 80))
				time.Sleep(time.Minute)
				backlog.Close()
				worst := zap.DebugLevel
				for _, line := range logs.All() {
					worst = max(worst, line.Level)
				}
				if events := logs.FilterMessage("event").Len(); worst != c.want || events != map[bool]int{true: 1}[worst == zap.WarnLevel] {
					t.Errorf("got level %v and %d events, want %v", worst, events, c.want)
				}
			})
		})
	}
}

// slow is a store that takes five seconds.
type slow struct{ store.Events }

func (s slow) AddEvent(ctx context.Context, e store.Event) (isNew bool, dropped int, err error) {
	time.Sleep(5 * time.Second)
	return s.Events.AddEvent(ctx, e)
}

// added has the events that it got. A queue of that length would be slow.
type added struct {
	store.Events
	list []store.Event
}

func (a *added) AddEvent(_ context.Context, e store.Event) (isNew bool, dropped int, err error) {
	a.list = append(a.list, e)
	return true, 0, nil
}

// TestBacklogFull: of too many events that wait for the store, the oldest are
// dropped and counted.
func TestBacklogFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, got, c, backlog, began := newShaky(always), new(added), new(counts), new(event.Backlog), time.Now()
		db.Events = got
		e := emitterWith(t, from(db), backlog, new([]string), c)
		for i := range store.MaxQueued + 2 {
			e.Publish(t.Context(), changed(i))
			time.Sleep(time.Millisecond) // also while the oldest one is tried
		}
		db.fails.Store(0)
		backlog.Close()
		if len(got.list) != store.MaxQueued || c.get(event.Dropped) != 2 {
			t.Fatalf("got %d events and %d dropped, want %d and 2", len(got.list), c.get(event.Dropped), store.MaxQueued)
		}
		for i, e := range got.list {
			if at := e.At.Sub(began); at != time.Duration(i+2)*time.Millisecond {
				t.Fatalf("event %d happened after %v: want the newest, in their order", i, at)
			}
		}
	})
}

// TestBacklogClose: what waits is stored before the store is closed. What the
// store does not take within seconds is counted as dropped, and so is what
// comes later.
func TestBacklogClose(t *testing.T) {
	t.Parallel()
	const waiting = 3
	for name, c := range map[string]struct {
		during func(s shaky) store.Events // the store during Close
		stored int
	}{
		"works": {func(s shaky) store.Events { return s.Events }, waiting},
		"fails": {func(s shaky) store.Events { return s }, 0},
		"hangs": {func(s shaky) store.Events { return slow{slow{s}} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				failing, count, backlog := newShaky(always), new(counts), new(event.Backlog)
				var db atomic.Value // of func() (store.Events, error)
				db.Store(from(failing))
				stored := func() (store.Events, error) { return db.Load().(func() (store.Events, error))() }
				e := emitterWith(t, stored, backlog, new([]string), count)
				for i := range waiting {
					e.Publish(t.Context(), changed(i))
				}
				db.Store(from(c.during(failing)))
				began := time.Now()
				backlog.Close()
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("closing took %s", took)
				}
				db.Store(from(failing))
				e.Publish(t.Context(), changed(waiting))
				time.Sleep(time.Minute)
				synctest.Wait()
				n, err := failing.QueuedEvents(t.Context())
				if dropped := waiting + 1 - c.stored; err != nil || n != c.stored || count.get(event.Dropped) != dropped {
					t.Errorf("got %d events, %v, and %d dropped; want %d and %d", n, err, count.get(event.Dropped), c.stored, dropped)
				}
			})
		})
	}
}
