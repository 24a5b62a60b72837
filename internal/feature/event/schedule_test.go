package event_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/outage/posttest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// inMemory starts a sender and a receiver that are connected in memory. Both stop
// at the end of the test, which must be in a bubble of synctest.
func inMemory(t *testing.T, db *event.Queue, answer http.HandlerFunc, logger ...*zap.Logger) (stop func(), c *posttest.Counts) {
	t.Helper()
	p := posttest.Listen()
	r := &receiver{t: t, ids: map[string]int{}, answer: func(w http.ResponseWriter, r *http.Request, _ int) { answer(w, r) }}
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(p) }() // returns when the server is closed
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	w := webhook(t, "http://receiver.example/hook?token=hidden")
	w.DialWith(p.Dial)
	return sender(t, db, w, append(logger, zap.NewNop())[0])
}

// TestPostTimesOut: a post ends after 15 seconds, and the next one comes
// about a second later.
func TestPostTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, began := open(t), time.Now()
		add(t, db, 1)
		var posts, ends []time.Duration
		answered := make(chan struct{})
		_, c := inMemory(t, db, func(_ http.ResponseWriter, r *http.Request) {
			if posts = append(posts, time.Since(began)); len(posts) == 2 {
				close(answered)
				return
			}
			<-r.Context().Done()
			ends = append(ends, time.Since(began))
		})
		<-answered
		synctest.Wait()
		if posts[0] != 0 || ends[0] != 15*time.Second || posts[1] < 15750*time.Millisecond || posts[1] > 17*time.Second {
			t.Errorf("got posts at %v and the end of the first one at %v, want 0, 16s and 15s", posts, ends)
		}
		if c.Get(event.Failed) != 1 || c.Get(event.Delivered) != 1 || !empty(t, db)() {
			t.Errorf("got %v, want one failed, one delivered and an empty queue", c)
		}
	})
}

// TestRetries: the first retry comes after about a second, the waits double up
// to an hour, the last try is 24 hours after the event happened, and then the
// event is given up.
func TestRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, began := open(t), time.Now()
		add(t, db, 1)
		var posts []time.Duration
		_, c := inMemory(t, db, func(w http.ResponseWriter, _ *http.Request) {
			posts = append(posts, time.Since(began))
			w.WriteHeader(http.StatusInternalServerError)
		})
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		const day, poll = 24 * time.Hour, time.Second
		last := len(posts) - 1
		wait := time.Second
		for i, at := range posts[1:last] {
			if waited := at - posts[i]; waited < wait*3/4 || waited > wait+poll {
				t.Errorf("retry %d came after %v, want about %v", i+1, waited, wait)
			}
			wait = min(2*wait, time.Hour)
		}
		if wait != time.Hour || posts[last] < day || posts[last] > day+poll || !slices.IsSorted(posts) {
			t.Errorf("got posts at %v, want the last one after 24h", posts)
		}
		if c.Get(event.Failed) != last || c.Get(event.Expired) != 1 || c.Get(event.Delivered) != 0 || !empty(t, db)() {
			t.Errorf("got %v, want %d failed, one expired and an empty queue", c, last)
		}
	})
}

// TestFailures: what is not answered with 2xx is tried again with the same id,
// redirects are not followed, and the log has neither the query of the URL nor
// the key.
func TestFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, posts := open(t), map[string]int{}
		add(t, db, 3)
		core, logs := observer.New(zap.DebugLevel)
		var mu sync.Mutex
		_, c := inMemory(t, db, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/hook" {
				t.Errorf("a redirect was followed to %s", r.URL)
			}
			mu.Lock()
			id := r.Header.Get("webhook-id")
			posts[id]++
			post := posts[id]
			mu.Unlock()
			switch post {
			case 1:
				http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			case 2:
				w.WriteHeader(http.StatusInternalServerError)
			case 3:
				panic(http.ErrAbortHandler)
			}
		}, zap.New(core))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(posts) != 3 || c.Get(event.Delivered) != 3 || c.Get(event.Failed) != 9 || !empty(t, db)() {
			t.Errorf("got posts %v and %v, want 3 delivered and 9 failed", posts, c)
		}
		for _, line := range logs.All() {
			if text, _ := json.Marshal(line.ContextMap()); bytes.Contains(text, []byte("hidden")) || bytes.Contains(text, key) {
				t.Errorf("the log has a secret: %s", text)
			}
		}
	})
}

// TestTooOld: an event that waited for more than a day is given up, and not
// posted.
func TestTooOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := open(t)
		add(t, db, 1)
		time.Sleep(25 * time.Hour)
		_, c := inMemory(t, db, func(http.ResponseWriter, *http.Request) { t.Error("it was posted") })
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.Get(event.Expired) != 1 || !empty(t, db)() {
			t.Errorf("got %v, want one expired", c)
		}
	})
}

// remote is an engine that does nothing for a context that has ended, as one over
// a network does.
type remote struct{ shared }

func (r remote) Commit(ctx context.Context, batches ...book.Batch) []error {
	if err := ctx.Err(); err != nil {
		return []error{err}
	}
	return r.Engine.Commit(ctx, batches...)
}

// hesitant waits after it has read rows of events.
type hesitant struct {
	remote
	read, waits chan struct{}
}

func (h hesitant) GetRows(ctx context.Context, of book.Space, keys ...string) ([]book.Row, error) {
	rows, err := h.remote.GetRows(ctx, of, keys...)
	if of == book.EventSpace && strings.HasPrefix(keys[0], "q ") {
		close(h.read)
		<-h.waits
	}
	return rows, err
}

// TestStopReleases: what a sender is posting can be posted by any process at once
// when it has stopped, and not only after its lease. Neither a post nor a read in
// progress keeps it.
func TestStopReleases(t *testing.T) {
	t.Parallel()
	next := func(t *testing.T, engine book.Engine) {
		t.Helper()
		began := time.Now()
		db := over(t, engine)
		inMemory(t, db, func(http.ResponseWriter, *http.Request) {})
		synctest.Wait()
		if time.Since(began) > 0 || !empty(t, db)() {
			t.Errorf("the next sender left %d events", len(queued(t, db)))
		}
	}
	t.Run("posting", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			engine, began := remote{shared{memstore.New()}}, time.Now()
			db := over(t, engine)
			add(t, db, 3)
			stop, c := inMemory(t, db, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			synctest.Wait() // all are being posted
			stop()
			next(t, engine)
			if time.Since(began) > 0 || c.Get(event.Failed) != 0 {
				t.Errorf("stopping took %v, with %v", time.Since(began), c)
			}
		})
	})
	t.Run("reading", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			engine := remote{shared{memstore.New()}}
			add(t, over(t, engine), 3)
			h := hesitant{engine, make(chan struct{}), make(chan struct{})}
			stop, _ := inMemory(t, over(t, h), func(http.ResponseWriter, *http.Request) { t.Error("an event was posted by a sender that stops") })
			<-h.read
			go func() {
				time.Sleep(time.Second)
				close(h.waits)
			}()
			stop()
			next(t, engine)
		})
	})
}

// TestKilledGate: while a gate posts, no other does. If it is killed, another one
// posts after the lease.
func TestKilledGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine, began := shared{memstore.New()}, time.Now()
		killed := book.Write{Row: book.Row{Key: "webhook", Value: book.EncodeRow("killed"), Expires: began.Add(10 * time.Second)}}
		if err := engine.Commit(t.Context(), book.Batch{Space: book.Space{Name: "leases"}, Writes: []book.Write{killed}})[0]; err != nil {
			t.Fatal(err)
		}
		posted := make(chan time.Duration, 1)
		db := over(t, engine)
		add(t, db, 1)
		inMemory(t, db, func(http.ResponseWriter, *http.Request) { posted <- time.Since(began) })
		if after := <-posted; after < 10*time.Second || after > 12*time.Second {
			t.Errorf("the event was posted after %v", after)
		}
	})
}

// TestLongPosts: a gate that posts for longer than a lease, or waits for the next
// try, keeps the events from others.
func TestLongPosts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := shared{memstore.New()}
		first := over(t, engine)
		add(t, first, 1)
		inMemory(t, first, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		synctest.Wait()
		inMemory(t, over(t, engine), func(http.ResponseWriter, *http.Request) { t.Error("another gate posted") })
		time.Sleep(time.Minute)
	})
}

// TestOutcomeIsKept: an event that was posted is not posted again because the
// store does not take that.
func TestOutcomeIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := newShaky(0)
		db, posts := over(t, engine), atomic.Int64{}
		add(t, db, 3)
		engine.fails.Store(always)
		inMemory(t, db, func(http.ResponseWriter, *http.Request) { posts.Add(1) })
		time.Sleep(time.Hour)
		if posts.Load() != 3 || len(queued(t, db)) != 3 {
			t.Errorf("got %d posts, want 3, and no row removed", posts.Load())
		}
		engine.fails.Store(0)
		time.Sleep(2 * time.Second)
		if synctest.Wait(); posts.Load() != 3 || !empty(t, db)() {
			t.Errorf("got %d posts, want 3 and an empty queue", posts.Load())
		}
	})
}

// TestFullQueue: if more events than store.MaxQueued wait, the oldest are dropped
// and counted. They stay known.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := open(t)
		add(t, db, store.MaxQueued+3)
		_, c := inMemory(t, db, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		synctest.Wait()
		if list := queued(t, db); c.Get(event.Dropped) != 3 || len(list) != store.MaxQueued || list[0].ID != "evt_3" {
			t.Errorf("got %d events from %s on, and %d were dropped", len(list), list[0].ID, c.Get(event.Dropped))
		}
		if isNew, err := db.Add(t.Context(), store.Event{ID: "evt_0", Queued: true}); err != nil || isNew {
			t.Errorf("adding a dropped event: got %v, %v", isNew, err)
		}
	})
}
