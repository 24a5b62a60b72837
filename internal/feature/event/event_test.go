package event_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/outage/posttest"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

var key = bytes.Repeat([]byte("k"), 32)

// open returns the queue of an empty store.
func open(t *testing.T) *event.Queue { return over(t, memstore.New()) }

// over returns the queue of a gate on an engine.
func over(t *testing.T, engine book.Engine) *event.Queue {
	t.Helper()
	db := book.New(engine, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return event.NewQueue(db)
}

// shared is an engine that several gates can use.
type shared struct{ book.Engine }

func (shared) Now() time.Time { return time.Now() }

func (shared) Since(t time.Time) time.Duration { return time.Since(t) }

// emitted has the types of events.
type emitted struct {
	mu    sync.Mutex
	types []string
}

func (e *emitted) add(kind string, _ map[string]any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.types = append(e.types, kind)
}

func (e *emitted) get() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.types)
}

// emitter returns an Emitter that posts nothing, until the test ends.
func emitter(t *testing.T, db *event.Queue, to *emitted) *event.Emitter {
	t.Helper()
	e := emitterWith(t, db, to, new(posttest.Counts), zap.NewNop())
	t.Cleanup(e.Close)
	return e
}

// emitterWith also counts what is dropped, and logs.
func emitterWith(t *testing.T, db *event.Queue, to *emitted, c *posttest.Counts, logger *zap.Logger) *event.Emitter {
	t.Helper()
	w := webhook(t, "http://receiver.example")
	w.DialWith(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("it is not reachable") })
	return event.NewEmitter(event.EmitterOptions{
		Queue: db, Webhook: func() *event.Webhook { return w }, Emit: to.add, Count: c.Add, Logger: logger,
	})
}

func quota(account string, threshold int) event.Quota {
	start := time.Now().UTC().Truncate(24 * time.Hour)
	return event.Quota{
		Account: account, Plan: "starter", Endpoint: "convert", Period: store.Day, Limit: 10, Used: 8, Threshold: threshold,
		Start: start, End: start.Add(24 * time.Hour), At: time.Now(),
	}
}

// queued returns the events that wait, oldest first.
func queued(t *testing.T, db *event.Queue) (list []store.Event) {
	t.Helper()
	found, err := db.Scan(t.Context(), 2*store.MaxQueued, book.Range{Space: book.EventSpace, From: "q ", To: "q!"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range found[0] {
		var e store.Event
		if err := book.DecodeRow(row, &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// TestOnce reports each state many times, also from a second gate on the same
// store.
func TestOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, got := open(t), new(emitted)
		month, other := quota("acc_1", 80), quota("acc_1", 80)
		month.Period, other.Endpoint = store.Month, store.All
		total := quota("acc_1", 80)
		total.Period, total.Start, total.End = store.Total, time.Time{}, time.Time{}
		raised := total
		raised.Limit = 100
		quotas := []event.Quota{quota("acc_1", 80), quota("acc_1", 90), quota("acc_1", 0), quota("acc_2", 80), month, other, total, raised}
		for range 2 {
			e := emitter(t, db, got)
			for range 5 {
				for _, q := range quotas {
					go e.Reached(store.Quota(q))
				}
			}
			synctest.Wait()
		}
		if len(got.get()) != len(quotas) || len(queued(t, db)) != len(quotas) {
			t.Errorf("got %v, want %d events", got.get(), len(quotas))
		}
	})
}

func TestID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := open(t)
		q := event.Quota{
			Account: "acc_1", Plan: "starter", Endpoint: "convert", Period: store.Day, Limit: 10, Used: 10,
			Start: time.Unix(1_790_000_000, 0), End: time.Unix(1_790_086_400, 0).UTC(), At: time.Unix(1_790_000_100, 0),
		}
		emitter(t, db, new(emitted)).Reached(store.Quota(q))
		synctest.Wait()
		list := queued(t, db)
		if len(list) != 1 {
			t.Fatal(list)
		}
		got := list[0]
		// Ids must never change: receivers recognize repetitions by them.
		if want := "evt_69e14f409cc1ebcac3817c6aa39e985b"; got.ID != want {
			t.Errorf("got id %s, want %s", got.ID, want)
		}
		want := `{"type":"tollgate.quota_exceeded","timestamp":"2026-09-21T14:15:00Z","data":{"account":"acc_1","endpoint":"convert","limit":10,"period":"day","plan":"starter","resets_at":"2026-09-22T14:13:20Z","threshold":100,"used":10}}`
		if string(got.Body) != want {
			t.Errorf("got %s\nwant %s", got.Body, want)
		}
	})
}

// receiver remembers what it gets, and answers.
type receiver struct {
	t      *testing.T
	answer func(w http.ResponseWriter, r *http.Request, post int)
	mu     sync.Mutex
	ids    map[string]int // posts, by webhook-id
}

// ServeHTTP verifies a post as receivers do.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	verifier, err := standardwebhooks.NewWebhookRaw(key)
	if err != nil {
		r.t.Error(err)
		return
	}
	body, err := io.ReadAll(request.Body)
	if err = errors.Join(err, verifier.Verify(body, request.Header)); err != nil || !json.Valid(body) {
		r.t.Errorf("verifying %s: %v", body, err)
	}
	r.mu.Lock()
	id := request.Header.Get("webhook-id")
	r.ids[id]++
	post := r.ids[id]
	r.mu.Unlock()
	r.answer(w, request, post)
}

// newReceiver returns a receiver and its address.
func newReceiver(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, post int)) (r *receiver, url string) {
	t.Helper()
	r = &receiver{t: t, answer: answer, ids: map[string]int{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	return r, server.URL
}

// received returns how many events and posts came.
func (r *receiver) received() (events, posts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.ids {
		posts += n
	}
	return len(r.ids), posts
}

// webhook returns the options of a webhook with the key.
func webhook(t *testing.T, url string) *event.Webhook {
	t.Helper()
	w := &event.Webhook{URL: url, Secret: "whsec_" + base64.StdEncoding.EncodeToString(key)}
	if err := w.Check(false); err != nil {
		t.Fatal(err)
	}
	return w
}

// sender posts to a webhook until the test ends, or until stop.
func sender(t *testing.T, db *event.Queue, to *event.Webhook, logger *zap.Logger) (stop func(), c *posttest.Counts) {
	t.Helper()
	c = &posttest.Counts{}
	e := event.NewEmitter(event.EmitterOptions{
		Queue: db, Webhook: func() *event.Webhook { return to }, Emit: func(string, map[string]any) {}, Count: c.Add, Logger: logger,
	})
	t.Cleanup(e.Close)
	return e.Close, c
}

// add adds events.
func add(t *testing.T, db *event.Queue, n int) {
	t.Helper()
	for i := range n {
		e := store.Event{ID: fmt.Sprint("evt_", i), Type: event.KeyCreated, At: time.Now(), Body: []byte("{}"), Queued: true, Known: time.Now().Add(time.Hour)}
		if isNew, err := db.Add(t.Context(), e); err != nil || !isNew {
			t.Fatalf("adding an event: %v, %v", isNew, err)
		}
	}
}

func empty(t *testing.T, db *event.Queue) func() bool {
	return func() bool {
		n, _, err := db.QueuedEvents(t.Context())
		return err == nil && n == 0
	}
}

func ok(http.ResponseWriter, *http.Request, int) {}

// TestTwoSenders: two gates on a store post each event once, also more than they
// post at once.
func TestTwoSenders(t *testing.T) {
	t.Parallel()
	engine := shared{memstore.New()}
	db := over(t, engine)
	r, url := newReceiver(t, ok)
	add(t, db, 150)
	for range 2 {
		sender(t, over(t, engine), webhook(t, url), zap.NewNop())
	}
	eventually(t, "all events", empty(t, db))
	if events, posts := r.received(); events != 150 || posts != 150 {
		t.Errorf("got %d events in %d posts, want 150 in 150", events, posts)
	}
}
