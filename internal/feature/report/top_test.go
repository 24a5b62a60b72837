package report_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/report"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// now is ahead of the clock of the machine, by which a store forgets what
// is over.
var now = time.Date(2126, 11, 20, 9, 0, 0, 0, time.UTC)

func openOn(t *testing.T, engine book.Engine) *storetest.Store {
	t.Helper()
	s := storetest.New(engine)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func open(t *testing.T) *storetest.Store { return openOn(t, memstore.New()) }

func compile(t *testing.T, zone string) *policy.Policy {
	t.Helper()
	limit := func(n int64) *policy.Limit { return new(policy.Limit(n)) }
	p, err := policy.New(policy.Config{
		Timezone: zone,
		Usage:    "GET /api/usage",
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "currencies", Patterns: []string{"GET /api/currencies"}},
		},
		Plans: []policy.PlanConfig{
			{Name: "free"},
			{Name: "starter", Limits: map[string]*policy.Limit{"convert": limit(1000)}},
			{Name: "business", Limits: map[string]*policy.Limit{"convert": limit(store.Unlimited), "currencies": limit(0)}},
			{Name: "monthly", MoreLimits: []policy.LimitConfig{
				{Endpoint: "all", Period: "month", Limit: 100}, {Endpoint: "convert", Period: "month", Limit: 40}, {Endpoint: "currencies", Period: "month", Limit: 3},
				{Endpoint: "all", Limit: 50}, {Endpoint: "currencies", Period: "hour", Limit: 9},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// spend counts calls of an account.
func spend(t *testing.T, s *storetest.Store, account, endpoint string, day calendar.Day, calls int64) {
	t.Helper()
	if ok, err := s.Take(t.Context(), store.Call{Account: account, Endpoint: endpoint, Day: day, Cost: calls}, nil, nil); !ok || err != nil {
		t.Fatalf("taking calls: %v, %v", ok, err)
	}
}

// credit gives calls of an account back.
func credit(t *testing.T, s *storetest.Store, account, endpoint string, day calendar.Day, calls int64) {
	t.Helper()
	credits := []book.Credit{{Day: day, Endpoint: endpoint, Calls: calls}}
	if _, err := s.Credit(t.Context(), now, account, "", credits, func(*book.Account, []book.Credit) {}); err != nil {
		t.Fatal(err)
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	s, p := open(t), compile(t, "Europe/Berlin")
	today := p.Calendar.At(now).Day
	put := func(id, plan string, overrides ...store.Override) {
		t.Helper()
		if _, err := s.ChangeAccount(t.Context(), id, func(a *store.Account, _ bool) error {
			a.Plan, a.Label, a.CreatedAt, a.Overrides = plan, "label of "+id, now, overrides
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	override := func(endpoint string, period store.Period, most int64, until time.Time) store.Override {
		return store.Override{Limit: store.Limit{Endpoint: endpoint, Period: period, Max: most}, ExpiresAt: until, CreatedAt: now.Add(-2 * time.Hour)}
	}
	put("acc_day", "starter")
	put("acc_month", "monthly")
	put("acc_raised", "starter", override("convert", store.Day, 4000, time.Time{}))
	put("acc_ended", "starter", override("convert", store.Day, 1, now.Add(-time.Hour)))
	put("acc_free", "free")
	put("acc_gone", "no-such-plan")
	put("acc_zero", "business")
	put("acc_idle", "starter")
	spend(t, s, "acc_day", "convert", today, 600)
	credit(t, s, "acc_day", "convert", today, 100)
	spend(t, s, "acc_month", "convert", today-7, 30)
	spend(t, s, "acc_month", "currencies", today, 3)
	spend(t, s, "acc_month", "convert", today-20, 900) // last month
	spend(t, s, "acc_raised", "convert", today, 1000)
	spend(t, s, "acc_ended", "convert", today, 10)
	spend(t, s, "acc_free", "convert", today, 7)
	spend(t, s, "acc_gone", "convert", today, 8)
	spend(t, s, "acc_zero", "currencies", today, 9)
	midnight, december := time.Date(2126, 11, 20, 23, 0, 0, 0, time.UTC), time.Date(2126, 11, 30, 23, 0, 0, 0, time.UTC)
	nearest := func(account, plan, endpoint, period string, limit, used int64, resets time.Time) api.NearestLimit {
		return api.NearestLimit{
			Account: account, Label: "label of " + account, Plan: plan, Endpoint: endpoint, Period: period,
			Limit: limit, Used: used, Remaining: limit - used, ResetsAt: &resets,
		}
	}
	wantNearest := []api.NearestLimit{
		nearest("acc_month", "monthly", "currencies", "month", 3, 3, december),
		nearest("acc_month", "monthly", "convert", "month", 40, 30, december),
		nearest("acc_day", "starter", "convert", "day", 1000, 500, midnight),
		nearest("acc_month", "monthly", "all", "month", 100, 33, december),
		nearest("acc_raised", "starter", "convert", "day", 4000, 1000, midnight),
		nearest("acc_month", "monthly", "all", "day", 50, 3, midnight),
		nearest("acc_ended", "starter", "convert", "day", 1000, 10, midnight),
	}
	for name, test := range map[string]struct {
		query report.TopQuery
		busy  string
	}{
		"today":     {report.TopQuery{Days: 1, Limit: 20}, "acc_raised:1000 acc_day:600 acc_ended:10 acc_zero:9 acc_gone:8 acc_free:7 acc_month:3"},
		"last week": {report.TopQuery{Days: 8, Limit: 3}, "acc_raised:1000 acc_day:600 acc_month:33"},
		"90 days":   {report.TopQuery{Days: 90, Limit: 2}, "acc_raised:1000 acc_month:933"},
	} {
		test.query.Now = now
		got, err := report.Top(t.Context(), p, s.Book, test.query)
		if err != nil {
			t.Fatal(err)
		}
		busy := ""
		for _, b := range got.Busiest {
			if b.Label != "label of "+b.Account || b.Plan == "" {
				t.Errorf("%s: got %+v", name, b)
			}
			busy += fmt.Sprintf(" %s:%d", b.Account, b.Calls)
		}
		if busy != " "+test.busy {
			t.Errorf("%s: got the busiest%s, want %s", name, busy, test.busy)
		}
		if diff := gocmp.Diff(wantNearest[:min(test.query.Limit, len(wantNearest))], got.Nearest); diff != "" {
			t.Errorf("%s: nearest (-want +got):\n%s", name, diff)
		}
	}
}

func TestTopRefusals(t *testing.T) {
	t.Parallel()
	s, p := open(t), compile(t, "")
	for _, days := range []int{0, api.MaxUsageDays + 1} {
		if _, err := report.Top(t.Context(), p, s.Book, report.TopQuery{Now: now, Days: days, Limit: 1}); !errors.Is(err, usage.ErrDays) {
			t.Errorf("%d days: got %v", days, err)
		}
	}
	got, err := report.Top(t.Context(), p, s.Book, report.TopQuery{Now: now, Days: 1, Limit: 1})
	if err != nil || got.Busiest == nil || got.Nearest == nil {
		t.Errorf("an empty store: got %+v, %v", got, err)
	}
}

// counting counts the pages that Top reads, and tells the reader of each.
type counting struct {
	book.Engine
	pages  int
	onPage func()
}

func (c *counting) List(ctx context.Context, after string, limit int, keys bool) ([]*book.Account, error) {
	c.pages++
	c.onPage()
	return c.Engine.List(ctx, after, limit, keys)
}

// TestTopOfManyAccounts reads several pages of accounts, but no further one when
// its client is gone.
func TestTopOfManyAccounts(t *testing.T) {
	t.Parallel()
	pages, p := &counting{Engine: memstore.New(), onPage: func() {}}, compile(t, "")
	s := openOn(t, pages)
	today := p.Calendar.At(now).Day
	var ids []string
	for i := range 450 {
		ids = append(ids, fmt.Sprintf("acc_%03d", i))
	}
	for batch := range slices.Chunk(ids, store.MaxBatch) {
		_, errs := s.ChangeAccounts(t.Context(), batch, func(_ int, a *store.Account, _ bool) error {
			a.Plan, a.CreatedAt = "starter", now
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range ids {
		spend(t, s, id, "convert", today, int64(i*37%450+1)) // each has another number
	}
	got, err := report.Top(t.Context(), p, s.Book, report.TopQuery{Now: now, Days: 1, Limit: 100})
	if err != nil || pages.pages < 3 || len(got.Busiest) != 100 || len(got.Nearest) != 100 {
		t.Fatalf("got %d and %d of %d pages, %v", len(got.Busiest), len(got.Nearest), pages.pages, err)
	}
	for i := range 100 {
		if calls := int64(450 - i); got.Busiest[i].Calls != calls || got.Nearest[i].Used != calls || got.Busiest[i].Account != got.Nearest[i].Account {
			t.Errorf("%d: got %+v and %+v, want %d calls", i, got.Busiest[i], got.Nearest[i], calls)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	pages.pages, pages.onPage = 0, cancel
	if _, err := report.Top(ctx, p, s.Book, report.TopQuery{Now: now, Days: 1, Limit: 1}); !errors.Is(err, context.Canceled) || pages.pages != 1 {
		t.Errorf("got %v after %d pages, want %v after 1", err, pages.pages, context.Canceled)
	}
}
