package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/feed"
	"github.com/caddy-tollgate/tollgate/internal/outage/posttest"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// of is what sums are about.
type of struct{ Account, Endpoint, Day string }

type sums struct{ Calls, Credited, Overage int64 }

// message is a message of any format.
type message struct {
	ID string
	At time.Time
	of
	sums
}

// parse reads the body of a post.
func parse(t *testing.T, format string, body []byte) (list []message) {
	t.Helper()
	type data struct {
		Endpoint, Day            string
		Calls, Credited, Overage any
	}
	add := func(id, account string, at time.Time, d data) {
		number := func(v any) int64 {
			n, err := strconv.ParseInt(fmt.Sprint(v), 10, 64)
			if err != nil {
				t.Errorf("in %s: %v", body, err)
			}
			return n
		}
		list = append(list, message{id, at, of{account, d.Endpoint, d.Day}, sums{number(d.Calls), number(d.Credited), number(d.Overage)}})
	}
	var err error
	switch format {
	case "cloudevents":
		var events []struct {
			ID, Subject string
			Time        time.Time
			Data        data
		}
		err = json.Unmarshal(body, &events)
		for _, e := range events {
			add(e.ID, e.Subject, e.Time, e.Data)
		}
	case "lago":
		var events struct {
			Events []struct {
				ID         string `json:"transaction_id"`
				Account    string `json:"external_subscription_id"`
				Timestamp  int64
				Properties data
			}
		}
		err = json.Unmarshal(body, &events)
		for _, e := range events.Events {
			add(e.ID, e.Account, time.Unix(e.Timestamp, 0), e.Properties)
		}
	case "metronome":
		var events []struct {
			ID         string `json:"transaction_id"`
			Account    string `json:"customer_id"`
			Timestamp  time.Time
			Properties data
		}
		err = json.Unmarshal(body, &events)
		for _, e := range events {
			add(e.ID, e.Account, e.Timestamp, e.Properties)
		}
	}
	if err != nil || len(list) == 0 || len(list) > 100 {
		t.Errorf("%s: %d messages, %v", body, len(list), err)
	}
	return list
}

// receiver keeps the newest message about each sums.
type receiver struct {
	t       *testing.T
	format  string
	feed    *feed.Feed
	inForce atomic.Pointer[feed.Feed]
	names   atomic.Pointer[store.Names]

	mu     sync.Mutex
	answer func(w http.ResponseWriter, list []message)
	known  map[string]message
	newest map[of]message
	posts  []*http.Request
	late   []message
}

// receive starts a receiver in memory.
func receive(t *testing.T, format string) *receiver {
	t.Helper()
	p := posttest.Listen()
	r := &receiver{t: t, format: format, known: map[string]message{}, newest: map[of]message{}}
	r.answer = r.accept
	server := &http.Server{Handler: r, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = server.Serve(p) }() // returns when the server is closed
	t.Cleanup(func() { _ = server.Close() })
	r.feed = &feed.Feed{URL: "http://receiver.example/events?key=hidden", Format: format, Token: "hush", Every: policy.Duration(time.Minute)}
	if err := r.feed.Check(false); err != nil {
		t.Fatal(err)
	}
	r.feed.DialWith(p.Dial)
	r.inForce.Store(r.feed)
	r.names.Store(new(store.Names))
	t.Cleanup(r.feed.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the gate is gone
	}
	list := parse(r.t, r.format, body)
	r.mu.Lock()
	r.posts = append(r.posts, request)
	answer := r.answer
	r.mu.Unlock()
	answer(w, list)
}

// answers decides about the posts from now on. The receiver accepts them without it.
func (r *receiver) answers(answer func(w http.ResponseWriter, list []message)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// pass lets time pass in a test of synctest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait() // for the race detector
}

// accept takes messages as the receivers do: one that is known is ignored, and Lago
// refuses all for it.
func (r *receiver) accept(w http.ResponseWriter, list []message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.format == "lago" {
		for _, m := range list {
			if _, found := r.known[m.ID]; found {
				w.WriteHeader(http.StatusUnprocessableEntity)
				_, _ = io.WriteString(w, `{"status":422,"code":"validation_errors","error_details":{"0":{"transaction_id":["value_already_exist"]}}}`)
				return
			}
		}
	}
	for _, m := range list {
		r.take(m)
	}
}

// take takes a message. The caller has the lock.
func (r *receiver) take(m message) {
	if before, found := r.known[m.ID]; found && before != m {
		r.t.Errorf("a repeated message differs: %v, then %v", before, m)
	}
	r.known[m.ID] = m
	last, found := r.newest[m.of]
	if found && last.At.Equal(m.At) && last.sums != m.sums {
		r.t.Errorf("two messages have one time: %v and %v", last, m)
	}
	if !found || m.At.After(last.At) {
		r.newest[m.of] = m
	}
	if day := m.At.In(berlin).Format(time.DateOnly); day != m.Day {
		r.t.Errorf("%v is of %s", m, day)
	}
}

var berlin = func() *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	return zone
}()

var errKilled = errors.New("the gate is killed")

// mortal is an engine that several gates can use, as one gate sees it: after kill it
// neither reads nor writes.
type mortal struct {
	book.Engine
	killed *atomic.Bool
}

func (m mortal) Now() time.Time                  { return time.Now() }
func (m mortal) Since(t time.Time) time.Duration { return time.Since(t) }

func (m mortal) GetRows(ctx context.Context, space book.Space, keys ...string) ([]book.Row, error) {
	if m.killed.Load() {
		return nil, errKilled
	}
	return m.Engine.GetRows(ctx, space, keys...)
}

func (m mortal) Commit(ctx context.Context, batches ...book.Batch) []error {
	if m.killed.Load() {
		return []error{errKilled}
	}
	return m.Engine.Commit(ctx, batches...)
}

// gate is a gate with a feed.
type gate struct {
	*feed.Feeder
	book   *book.Book
	killed *atomic.Bool
	counts posttest.Counts
}

// start starts a gate on an engine.
func (r *receiver) start(engine book.Engine, logger *zap.Logger) *gate {
	r.t.Helper()
	g := &gate{killed: new(atomic.Bool)}
	g.book = book.New(mortal{engine, g.killed}, slog.New(slog.DiscardHandler))
	g.Feeder = feed.Start(feed.Options{
		Book: g.book, Count: g.counts.Add, Logger: logger,
		InForce: func() (*feed.Feed, *policy.Policy) {
			return r.inForce.Load(), &policy.Policy{Calendar: calendar.In(berlin), Names: *r.names.Load()}
		},
	})
	r.t.Cleanup(func() {
		g.Close()
		if err := g.book.Close(); err != nil && !g.killed.Load() {
			r.t.Error(err)
		}
	})
	return g
}

// want compares what the receiver has with the bills of the days that are fed.
func (r *receiver) want(b *book.Book, first, last calendar.Day) {
	r.t.Helper()
	bills, _, err := b.Bills(r.t.Context(), "", store.MaxBatch, first, last)
	if err != nil {
		r.t.Fatal(err)
	}
	want := map[of]sums{}
	for _, bill := range bills {
		key := of{bill.Account, bill.Endpoint, bill.Day.String()}
		s := want[key]
		want[key] = sums{s.Calls + bill.Calls, s.Credited + bill.Credited, s.Overage + bill.Overage}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rand.Shuffle(len(r.late), func(i, j int) { r.late[i], r.late[j] = r.late[j], r.late[i] })
	for _, m := range r.late {
		r.take(m)
	}
	r.late = nil
	for key, m := range r.newest {
		if m.sums != want[key] {
			r.t.Errorf("%v: got %v at %v, want %v", key, m.sums, m.At, want[key])
		}
		delete(want, key)
	}
	if len(want) > 0 {
		r.t.Errorf("not received: %v", want)
	}
}
