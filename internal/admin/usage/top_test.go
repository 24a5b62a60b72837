package usage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/usage"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

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
			Limit: limit, Used: used, Remaining: limit - used, ResetsAt: resets,
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
		query usage.TopQuery
		busy  string
	}{
		"today":     {usage.TopQuery{Days: 1, Limit: 20}, "acc_raised:1000 acc_day:600 acc_ended:10 acc_zero:9 acc_gone:8 acc_free:7 acc_month:3"},
		"last week": {usage.TopQuery{Days: 8, Limit: 3}, "acc_raised:1000 acc_day:600 acc_month:33"},
		"90 days":   {usage.TopQuery{Days: 90, Limit: 2}, "acc_raised:1000 acc_month:933"},
	} {
		test.query.Now = now
		got, err := usage.Top(t.Context(), p, s, test.query)
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
		if _, err := usage.Top(t.Context(), p, s, usage.TopQuery{Now: now, Days: days, Limit: 1}); !errors.Is(err, usage.ErrDays) {
			t.Errorf("%d days: got %v", days, err)
		}
	}
	got, err := usage.Top(t.Context(), p, s, usage.TopQuery{Now: now, Days: 1, Limit: 1})
	if err != nil || got.Busiest == nil || got.Nearest == nil {
		t.Errorf("an empty store: got %+v, %v", got, err)
	}
}

// counting counts the pages that Top reads, and tells the reader of each.
type counting struct {
	*storetest.Store
	pages  int
	onPage func()
}

func (c *counting) List(ctx context.Context, after string, limit int, keys bool) ([]*book.Account, error) {
	c.pages++
	c.onPage()
	return c.Store.List(ctx, after, limit, keys)
}

// TestTopOfManyAccounts reads several pages of accounts, but no further one when
// its client is gone.
func TestTopOfManyAccounts(t *testing.T) {
	t.Parallel()
	s, p := &counting{Store: open(t), onPage: func() {}}, compile(t, "")
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
		spend(t, s.Store, id, "convert", today, int64(i*37%450+1)) // each has another number
	}
	got, err := usage.Top(t.Context(), p, s, usage.TopQuery{Now: now, Days: 1, Limit: 100})
	if err != nil || s.pages < 3 || len(got.Busiest) != 100 || len(got.Nearest) != 100 {
		t.Fatalf("got %d and %d of %d pages, %v", len(got.Busiest), len(got.Nearest), s.pages, err)
	}
	for i := range 100 {
		if calls := int64(450 - i); got.Busiest[i].Calls != calls || got.Nearest[i].Used != calls || got.Busiest[i].Account != got.Nearest[i].Account {
			t.Errorf("%d: got %+v and %+v, want %d calls", i, got.Busiest[i], got.Nearest[i], calls)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.pages, s.onPage = 0, cancel
	if _, err := usage.Top(ctx, p, s, usage.TopQuery{Now: now, Days: 1, Limit: 1}); !errors.Is(err, context.Canceled) || s.pages != 1 {
		t.Errorf("got %v after %d pages, want %v after 1", err, s.pages, context.Canceled)
	}
}
