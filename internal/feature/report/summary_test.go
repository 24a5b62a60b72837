package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// reads is an engine that tells a test when it reads accounts or entries. The
// gate also reads entries in the background.
type reads struct {
	book.Engine
	listed, entries hook
}

// hook is a function that a test replaces while it is called.
type hook struct{ atomic.Pointer[func()] }

func (h *hook) set(do func()) { h.Store(&do) }

func (h *hook) call() {
	if do := h.Load(); do != nil {
		(*do)()
	}
}

func (r *reads) List(ctx context.Context, after string, limit int, keys bool) ([]*book.Account, error) {
	r.listed.call()
	return r.Engine.List(ctx, after, limit, keys)
}

func (r *reads) Entries(ctx context.Context, after, before store.EntryID, reverse bool, limit int) ([]book.LogEntry, error) {
	r.entries.call()
	return r.Engine.Entries(ctx, after, before, reverse, limit)
}

// overReads returns a gate on such an engine, and a client of it.
func overReads(t *testing.T) (*reads, *controltest.Gate, *client.Client) {
	t.Helper()
	engine := &reads{Engine: memstore.New()}
	g := controltest.Over(t, engine)
	return engine, g, client.InProcess(g.InProcess())
}

func putAccounts(t *testing.T, g *controltest.Gate, n int) {
	t.Helper()
	for first := 0; first < n; first += store.MaxBatch {
		var ids []string
		for i := range min(store.MaxBatch, n-first) {
			ids = append(ids, fmt.Sprintf("acc_%05d", first+i))
		}
		_, errs := g.Opened().ChangeAccounts(t.Context(), ids, func(_ int, a *store.Account, _ bool) error {
			a.Plan, a.CreatedAt = "starter", controltest.Start
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
}

func isUnavailable(err error) bool {
	var refused *apierror.Error
	return errors.As(err, &refused) && refused.Code == "unavailable"
}

func summaryOf(t *testing.T, c *client.Client) api.Summary {
	t.Helper()
	s, err := c.Summary(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSummary has the names of today, and all that the document says.
func TestSummary(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Account(t, "acc_1", "starter")
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_2", `{"plan":"starter","disabled":true,"label":"ada@example.com"}`)
	today := g.Policy().Calendar.At(g.Now()).Day
	for endpoint, calls := range map[string]int64{"convert": 7, "gone": 2} {
		if ok, err := g.Opened().Take(t.Context(), store.Call{Account: "acc_1", Endpoint: endpoint, Day: today, Cost: calls}, nil, nil); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	err := g.Opened().AddRefused(t.Context(), []store.Refused{
		{Day: today, Code: "unauthenticated", Calls: 2}, {Day: today, Account: "acc_2", Endpoint: "convert", Code: "quota_exceeded", Calls: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	config := controltest.Config()
	config.Endpoints[1].Name, config.Endpoints[1].Rename, config.Endpoints[2].Ability = "exchange", []string{"convert"}, "exchange"
	config.Plans[1].Limits = controltest.Limits(map[string]int64{"exchange": 10})
	config.Plans[2].Limits = controltest.Limits(map[string]int64{"exchange": 10})
	g.Configure(t, config)
	g.Must(t, http.StatusOK, "GET", "/tollgate/usage/top", "") // as documented
	for _, query := range []string{"days=0", "days=91", "limit=1001"} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", "/tollgate/usage/top?"+query, "")
	}
	got := fmt.Sprint(g.Must(t, http.StatusOK, "GET", "/tollgate/summary", ""))
	for _, want := range []string{
		"accounts:2 ", "disabled:1 ", "at:2126-11-20T09:00:00Z", "map[calls:map[exchange:7 gone:2] day:2126-11-20 refused:map[quota_exceeded:3 unauthenticated:2]]",
		"most_refused:[map[account:acc_2 calls:3 codes:map[quota_exceeded:3] label:ada@example.com plan:starter]]",
		"map[account:acc_1 endpoint:exchange label: limit:10 period:day plan:starter remaining:3",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

// TestSummaryIsKept: a summary is made at most once a minute. An older one is
// shown while the next one is made, unless it is an hour old.
func TestSummaryIsKept(t *testing.T) {
	t.Parallel()
	engine, g, c := overReads(t)
	putAccounts(t, g, 1)
	first := summaryOf(t, c)
	if first.Accounts != 1 {
		t.Fatalf("got %d accounts", first.Accounts)
	}
	putAccounts(t, g, 2)
	g.Advance(59 * time.Second)
	engine.listed.set(func() { t.Error("a summary of the last minute was made again") })
	if got := summaryOf(t, c); got.Accounts != 1 || !got.At.Equal(first.At) {
		t.Errorf("within a minute: got %d accounts of %s", got.Accounts, got.At)
	}
	release := make(chan struct{})
	engine.listed.set(func() { <-release })
	g.Advance(time.Second)
	for range 3 {
		if got := summaryOf(t, c); got.Accounts != 1 { // while the next one waits
			t.Errorf("after a minute: got %d accounts", got.Accounts)
		}
	}
	close(release)
	second := summaryOf(t, c)
	for second.At.Equal(first.At) {
		second = summaryOf(t, c)
	}
	if second.Accounts != 2 || !second.At.Equal(g.Now()) {
		t.Errorf("the next one: got %d accounts of %s", second.Accounts, second.At)
	}
	putAccounts(t, g, 3)
	for name, step := range map[string]time.Duration{"after an hour": time.Hour, "a clock that was set back": -2 * time.Hour} {
		g.Advance(step)
		if got := summaryOf(t, c); got.Accounts != 3 || !got.At.Equal(g.Now()) {
			t.Errorf("%s: got %d accounts of %s", name, got.Accounts, got.At)
		}
	}
}

// TestSummaryIsMadeOnce: many requests wait for one summary. The deadline of a
// client ends its wait and not the work.
func TestSummaryIsMadeOnce(t *testing.T) {
	t.Parallel()
	engine, arrived := &reads{Engine: memstore.New()}, make(chan struct{}, 100)
	handler := feature.Handler(arrivals{controltest.Over(t, engine), arrived}, slog.New(slog.DiscardHandler))
	c, w := client.InProcess(handler), httptest.NewRecorder()
	began, release := make(chan struct{}, 100), make(chan struct{})
	engine.listed.set(func() {
		began <- struct{}{}
		<-release
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/tollgate/summary", nil))
	}()
	<-arrived
	<-began
	cancel()
	<-gone
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "5" || !strings.Contains(w.Body.String(), `"code":"unavailable"`) {
		t.Errorf("a client whose deadline is over: got %d %v %s", w.Code, w.Header(), w.Body)
	}
	release <- struct{}{}
	<-began // it reads on without the client
	var wait sync.WaitGroup
	const requests = 10
	for range requests {
		wait.Go(func() {
			if got, err := c.Summary(t.Context()); err != nil || len(got.Days) != 30 {
				t.Errorf("got %d days, %v", len(got.Days), err)
			}
		})
	}
	for range requests {
		<-arrived
	}
	close(release)
	wait.Wait()
	// A request that waits late makes one more summary, with two reads.
	if n := len(began); n >= 2*requests {
		t.Errorf("%d reads of all accounts for %d requests", n, requests)
	}
}

// arrivals is a gate that tells of each request.
type arrivals struct {
	*controltest.Gate
	arrived chan struct{}
}

func (a arrivals) Now() time.Time {
	a.arrived <- struct{}{}
	return a.Gate.Now()
}

// TestSummaryFails: the store fails. No summary is kept, and the log says why.
func TestSummaryFails(t *testing.T) {
	t.Parallel()
	g := controltest.Over(t, &brokenRows{Engine: memstore.New()})
	c := client.InProcess(g.InProcess())
	if _, err := c.Summary(t.Context()); !isUnavailable(err) || !strings.Contains(g.Log(), "the rows are gone") {
		t.Errorf("got %v, logged %s", err, g.Log())
	}
}

type brokenRows struct{ book.Engine }

func (brokenRows) Scan(context.Context, int, ...book.Range) ([][]book.Row, error) {
	return nil, errors.New("the rows are gone")
}

// TestSummaryPanics: a panic while a summary is made ends neither the process nor
// the summary that is kept. The next one is made again.
func TestSummaryPanics(t *testing.T) {
	t.Parallel()
	engine, g, c := overReads(t)
	engine.listed.set(func() { panic("the store is confused") })
	if _, err := c.Summary(t.Context()); !isUnavailable(err) || !strings.Contains(g.Log(), "the store is confused") {
		t.Errorf("got %v, logged %s", err, g.Log())
	}
	engine.listed.set(func() {})
	first := summaryOf(t, c)
	engine.listed.set(func() { panic("the store is confused") })
	g.Advance(2 * time.Minute)
	if got := summaryOf(t, c); !got.At.Equal(first.At) {
		t.Errorf("got a summary of %s", got.At)
	}
	g.Advance(2 * time.Hour)
	if _, err := c.Summary(t.Context()); !isUnavailable(err) {
		t.Errorf("after hours: got %v", err)
	}
}

// watched is a gate with or without a webhook, and a unit for backups.
type watched struct {
	*controltest.Gate
	webhook, timer bool
}

func (w watched) Watched() (webhook, backup bool) { return w.webhook, w.timer }

// TestSummaryChecks: the checks fail when the alerts fire, and say what to do. There
// is no word of a backup that is not due, or that no unit makes.
func TestSummaryChecks(t *testing.T) {
	t.Parallel()
	const enable = "Run systemctl enable --now tollgate-backup.timer and systemctl start tollgate-backup. If that fails, journalctl -u tollgate-backup says why."
	for name, test := range map[string]struct {
		webhook, timer bool
		event          time.Duration // its age, 0 for none
		backup         time.Duration // its age, 0 for none
		change         time.Duration // the age of the first change, 0 for none
		want           string
	}{
		"nothing":          {true, true, 0, 0, 0, "webhook true No event waits for delivery. "},
		"installed today":  {false, true, 0, 0, 26 * time.Hour, ""},
		"without the unit": {false, false, 0, 0, 100 * time.Hour, ""},
		"never": {
			false, true, 0, 0, 26*time.Hour + time.Second, "backup false No backup of the gate ever succeeded. " + enable,
		},
		"works": {
			true, true, 15 * time.Minute, 26 * time.Hour, 0,
			"webhook true Events that wait for delivery: 1, the oldest for 15m0s. |backup true The last backup of the gate succeeded at 2126-11-19 07:00:00 UTC. ",
		},
		"fails": {
			true, true, 15*time.Minute + time.Second, 26*time.Hour + time.Second, 0,
			"webhook false Events that wait for delivery: 1, the oldest for 15m1s. The gate tries each event for 24 hours. " +
				`Look for "posting an event" in the log of Caddy. The receiver must answer with 2xx within 15 seconds.|backup false The last backup of the gate succeeded at 2126-11-19 06:59:59 UTC. ` + enable,
		},
		"a night without the unit": {
			false, false, time.Hour, 27 * time.Hour, 0,
			"backup false The last backup of the gate succeeded at 2126-11-19 06:00:00 UTC. Run caddy tollgate backup every night: see Backup and restore in docs/customers.md.",
		},
	} {
		g := controltest.New(t)
		c := client.InProcess(feature.Handler(watched{g, test.webhook, test.timer}, slog.New(slog.DiscardHandler)))
		if test.change > 0 {
			if _, err := c.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
				t.Fatal(err)
			}
			g.Advance(test.change)
		}
		if test.event > 0 {
			at := g.Now().Add(-test.event)
			if _, err := event.NewQueue(g.Opened().Book).Add(t.Context(), store.Event{ID: "event_1", Type: "x", At: at, Known: at.Add(48 * time.Hour), Body: []byte("{}"), Queued: true}); err != nil {
				t.Fatal(err)
			}
		}
		if test.backup > 0 {
			if err := g.Opened().BackedUp(t.Context(), g.Now().Add(-test.backup)); err != nil {
				t.Fatal(err)
			}
		}
		summary := summaryOf(t, c)
		var checks []string
		for _, c := range summary.Checks {
			checks = append(checks, fmt.Sprint(c.Name, " ", c.OK, " ", c.Message, " ", c.Remedy))
		}
		if got := strings.Join(checks, "|"); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
