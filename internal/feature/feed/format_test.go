package feed_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/feed"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// TestCloudEvents: the SDK of the CNCF reads the posts, and finds each event valid.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	u := &use{t: t, book: book.New(memstore.New(), nil)}
	for i := range 120 {
		u.call(fmt.Sprintf("acc_%03d", i), "rates", today(), 7)
	}
	u.credit("acc_000", "rates", today(), 3)
	seen := make(chan int, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events, err := cehttp.NewEventsFromHTTPRequest(r)
		if err != nil {
			t.Error(err)
		}
		for _, e := range events {
			data, text := struct {
				Account, Endpoint, Day   string
				Calls, Credited, Overage int64
			}{}, ""
			if err := errors.Join(e.Validate(), e.DataAs(&data)); err != nil || e.Type() != "tollgate.usage" || e.Subject() != data.Account || e.Source() != "tollgate" {
				t.Errorf("got %s, %v", e, err)
			}
			want := "rates 7 0 2"
			if data.Account == "acc_000" {
				want = "rates 7 3 2"
			}
			if text = fmt.Sprint(data.Endpoint, " ", data.Calls, " ", data.Credited, " ", data.Overage); text != want {
				t.Errorf("%s: got %s, want %s", data.Account, text, want)
			}
		}
		if got := r.Header.Get("Authorization"); got != "" {
			t.Errorf("got the authorization %q without a token", got)
		}
		seen <- len(events)
	}))
	t.Cleanup(server.Close)
	f := &feed.Feed{URL: server.URL, Format: "cloudevents", Every: policy.Duration(time.Second)}
	if err := f.Check(false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	fed := feed.Start(feed.Options{
		Book: u.book, Count: func(string, int) {}, Logger: zap.NewNop(),
		InForce: func() (*feed.Feed, *policy.Policy) { return f, &policy.Policy{Calendar: calendar.In(berlin)} },
	})
	t.Cleanup(fed.Close)
	for n := 0; n < 120; {
		n += <-seen
	}
}

// TestRefused: a message that a receiver refuses keeps no other one back. One that
// refuses all gets them again, and its errors show neither URL nor token.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, engine, log := receive(t, format), memstore.New(), new(bytes.Buffer)
				u := &use{t: t, book: book.New(engine, nil)}
				for i := range 150 {
					u.call(fmt.Sprintf("acc_%03d", i), "rates", today(), 1)
				}
				refuse := func(refused func(m message) bool) {
					r.answers(func(w http.ResponseWriter, list []message) {
						if slices.ContainsFunc(list, refused) {
							w.WriteHeader(http.StatusBadRequest)
							return
						}
						r.accept(w, list)
					})
				}
				refuse(func(message) bool { return true })
				logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(log)), zap.InfoLevel))
				g := r.start(engine, logger)
				pass(10 * time.Second)
				if len(r.newest) > 0 || g.counts.Get(feed.Refused) < 100 || g.counts.Get(feed.Failed) == 0 {
					t.Errorf("got %v", &g.counts)
				}
				refuse(func(m message) bool { return m.Account < "acc_120" })
				pass(time.Hour)
				if len(r.newest) != 30 {
					t.Errorf("beside many that are refused: got %d messages, want 30", len(r.newest))
				}
				refuse(func(m message) bool { return m.Account == "acc_017" })
				pass(time.Hour)
				if _, found := r.newest[of{"acc_017", "rates", today().String()}]; found || len(r.newest) != 149 {
					t.Errorf("got %d messages, want 149", len(r.newest))
				}
				r.answers(r.accept)
				pass(time.Hour)
				r.want(u.book, today()-feed.LookBack, today())
				g.Close()
				for _, p := range r.posts {
					if p.Header.Get("Authorization") != "Bearer hush" {
						t.Errorf("got the headers %v", p.Header)
					}
				}
				if text := log.String(); !strings.Contains(text, "the receiver answered 400") || !strings.Contains(text, "acc_017") ||
					strings.Contains(text, "hush") || strings.Contains(text, "hidden") || strings.Contains(text, "receiver.example") {
					t.Errorf("got the log %s", text)
				}
			})
		})
	}
}

// TestOneGateFeeds: of two gates, one posts. The other one posts when it has stopped,
// and sooner or later when it was killed. A redirect is not followed.
func TestOneGateFeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, engine := receive(t, "cloudevents"), memstore.New()
		u := &use{t: t, book: book.New(engine, nil)}
		gates := []*gate{r.start(engine, zap.NewNop()), r.start(engine, zap.NewNop())}
		delivered := func() (by []int) {
			u.call("acc_1", "rates", today(), 1)
			pass(4 * time.Minute)
			for _, g := range gates {
				by = append(by, g.counts.Get(feed.Delivered))
				g.counts.Add(feed.Delivered, -by[len(by)-1])
			}
			return by
		}
		first := delivered()
		for range 20 {
			if by := delivered(); by[0] != first[0] || by[1] != first[1] {
				t.Errorf("the gates delivered %v, then %v", first, by)
			}
		}
		active := 0
		if first[1] > 0 {
			active = 1
		}
		gates[active].killed.Store(true)
		if by := delivered(); by[active] != 0 || by[1-active] != 1 {
			t.Errorf("after a kill the gates delivered %v", by)
		}
		r.answers(func(w http.ResponseWriter, _ []message) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		if by := delivered(); by[1-active] != 0 {
			t.Errorf("a redirect delivered %v", by)
		}
		for _, p := range r.posts {
			if p.URL.Path != "/events" {
				t.Errorf("a redirect was followed to %s", p.URL)
			}
		}
	})
}
