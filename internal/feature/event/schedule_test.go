package event_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// pipes is a listener in memory, because time does not pass in a test of
// synctest while a goroutine waits for the network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error { close(p.closed); return nil }

func (pipes) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// inMemory starts a Sender and a receiver that are connected in memory. Both
// stop at the end of the test, which must be in a bubble of synctest.
func inMemory(t *testing.T, db event.Store, answer http.HandlerFunc, logger ...*zap.Logger) (*event.Sender, *counts) {
	t.Helper()
	p := pipes{make(chan net.Conn), make(chan struct{})}
	r := &receiver{t: t, ids: map[string]int{}, answer: func(w http.ResponseWriter, r *http.Request, _ int) { answer(w, r) }}
	server := &http.Server{Handler: r}
	go func() { _ = server.Serve(p) }() // returns when the server is closed
	c := &counts{}
	s, err := event.NewSender(event.SenderOptions{
		URL: "http://receiver.example/hook?token=hidden", Key: key, Count: c.add, Now: time.Now, Logger: append(logger, zap.NewNop())[0],
	})
	if err != nil {
		t.Fatal(err)
	}
	s.DialWith(p.dial)
	s.Start(db)
	t.Cleanup(func() {
		s.Stop()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, c
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
		if c.get(event.Failed) != 1 || c.get(event.Delivered) != 1 || !empty(t, db)() {
			t.Errorf("got %v, want one failed, one delivered and an empty queue", c.of)
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
		if c.get(event.Failed) != last || c.get(event.Expired) != 1 || c.get(event.Delivered) != 0 || !empty(t, db)() {
			t.Errorf("got %v, want %d failed, one expired and an empty queue", c.of, last)
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
		if len(posts) != 3 || c.get(event.Delivered) != 3 || c.get(event.Failed) != 9 || !empty(t, db)() {
			t.Errorf("got posts %v and %v, want 3 delivered and 9 failed", posts, c.of)
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
		db, q := open(t), quota("acc_1", 80)
		q.At = time.Now().Add(-25 * time.Hour)
		emitter(t, db, new(emitted)).Reached(q)
		synctest.Wait()
		_, c := inMemory(t, db, func(http.ResponseWriter, *http.Request) { t.Error("it was posted") })
		time.Sleep(time.Minute)
		synctest.Wait()
		if c.get(event.Expired) != 1 || !empty(t, db)() {
			t.Errorf("got %v, want one expired", c.of)
		}
	})
}

// remote is a store that does nothing for a context that has ended, as a store
// over a network does.
type remote struct{ event.Store }

func (r remote) RetryEvent(ctx context.Context, id string, due time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.Store.RetryEvent(ctx, id, due)
}

// hesitant claims events and then waits.
type hesitant struct {
	event.Store
	claimed, waits chan struct{}
}

func (h hesitant) ClaimEvents(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]store.Event, error) {
	list, err := h.Store.ClaimEvents(ctx, now, lease, limit)
	select {
	case h.claimed <- struct{}{}:
	default: // a later claim
	}
	<-h.waits
	return list, err
}

// TestStopReleases: events that a sender has claimed are due when it has
// stopped, for any process, and not only after their lease. Neither a post nor
// a claim in progress keeps them.
func TestStopReleases(t *testing.T) {
	t.Parallel()
	due := func(t *testing.T, db event.Store) {
		t.Helper()
		list, err := db.ClaimEvents(t.Context(), time.Now(), time.Minute, 10)
		if err != nil || len(list) != 3 {
			t.Errorf("got %d events, %v, want 3", len(list), err)
		}
	}
	t.Run("posting", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			db, began := open(t), time.Now()
			add(t, db, 3)
			s, c := inMemory(t, remote{db}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			synctest.Wait() // all are being posted
			s.Stop()
			due(t, db)
			if time.Since(began) > 0 || c.get(event.Failed) != 0 {
				t.Errorf("stopping took %v, with %v", time.Since(began), c.of)
			}
		})
	})
	t.Run("claiming", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			db := open(t)
			add(t, db, 3)
			h := hesitant{remote{db}, make(chan struct{}, 1), make(chan struct{})}
			s, _ := inMemory(t, h, func(http.ResponseWriter, *http.Request) { t.Error("an event was posted by a sender that stops") })
			<-h.claimed
			go func() {
				time.Sleep(time.Second)
				close(h.waits)
			}()
			s.Stop()
			due(t, db)
		})
	})
}
