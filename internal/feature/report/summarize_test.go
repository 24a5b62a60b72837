package report_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/report"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// atNow is an engine whose clock is at now: refused calls are kept by it.
type atNow struct{ book.Engine }

func (atNow) Now() time.Time                  { return now }
func (atNow) Since(t time.Time) time.Duration { return now.Sub(t) }

func openAtNow(t *testing.T) *storetest.Store { return openOn(t, atNow{memstore.New()}) }

func putAccount(t *testing.T, s *storetest.Store, id, plan string, disabled bool) {
	t.Helper()
	account := store.Account{ID: id, Plan: plan, Label: "label of " + id, Disabled: disabled, CreatedAt: now}
	if _, err := storetest.PutAccount(t.Context(), s.Book, account); err != nil {
		t.Fatal(err)
	}
}

func closeAccount(t *testing.T, s *storetest.Store, id string, today calendar.Day) {
	t.Helper()
	if err := s.CloseAccount(t.Context(), now, id, today, today, func(*book.Account, []book.Bill) {}); err != nil {
		t.Fatal(err)
	}
}

func summarize(t *testing.T, s *storetest.Store, last api.Summary) api.Summary {
	t.Helper()
	got, err := report.Summarize(t.Context(), compile(t, "Europe/Berlin"), s.Book, now, last)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// shownDays returns the days that are not empty.
func shownDays(s api.Summary) map[string]string {
	shown := map[string]string{}
	for _, d := range s.Days {
		if len(d.Calls)+len(d.Refused) > 0 {
			shown[d.Day] = fmt.Sprint(d.Calls, d.Refused)
		}
	}
	return shown
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	s := openAtNow(t)
	today := compile(t, "Europe/Berlin").Calendar.At(now).Day
	putAccount(t, s, "acc_1", "starter", false)
	putAccount(t, s, "acc_2", "monthly", true)
	putAccount(t, s, "acc_closed", "starter", false)
	putAccount(t, s, "acc_again", "starter", false)
	putAccount(t, s, "zzz_closed", "starter", false)
	spend(t, s, "acc_1", "convert", today, 600)
	credit(t, s, "acc_1", "convert", today, 100)
	spend(t, s, "acc_1", "currencies", today, 2)
	spend(t, s, "acc_2", "convert", today-29, 5)
	spend(t, s, "acc_2", "convert", today-30, 1000)
	for _, id := range []string{"acc_closed", "acc_again", "zzz_closed"} {
		spend(t, s, id, "convert", today-3, 10)
		closeAccount(t, s, id, today)
	}
	putAccount(t, s, "acc_again", "starter", false)
	spend(t, s, "acc_again", "convert", today-3, 1)
	var refused []store.Refused
	add := func(day calendar.Day, account, code, reason string, calls int64) {
		refused = append(refused, store.Refused{Day: day, Account: account, Endpoint: "convert", Code: code, Reason: reason, Calls: calls})
	}
	add(today, "", "invalid_token", "", 50)
	add(today, "acc_1", "quota_exceeded", "", 3)
	add(today, "acc_1", "invalid_token", "revoked", 1)
	add(today, "acc_1", "invalid_token", "expired", 1)
	add(today-6, "acc_2", "quota_exceeded", "", 4)
	add(today-7, "acc_2", "quota_exceeded", "", 900)
	add(today, "acc_closed", "invalid_token", "", 70)
	add(today-29, "acc_1", "not_entitled", "", 8)
	add(today-30, "acc_1", "not_entitled", "", 9)
	if err := s.AddRefused(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	got := summarize(t, s, api.Summary{})
	if len(got.Days) != 30 || got.Days[0].Day != "2126-10-22" || got.Days[29].Day != "2126-11-20" || !got.At.Equal(now) || got.Accounts != 3 || got.Disabled != 1 {
		t.Errorf("got %d accounts, %d disabled, days %+v", got.Accounts, got.Disabled, got.Days)
	}
	want := map[string]string{
		"2126-11-20": "map[convert:600 currencies:2] map[invalid_token:122 quota_exceeded:3]",
		"2126-11-17": "map[convert:31] map[]", // closed accounts, and one that was created again
		"2126-11-14": "map[] map[quota_exceeded:4]",
		"2126-11-13": "map[] map[quota_exceeded:900]",
		"2126-10-22": "map[convert:5] map[not_entitled:8]",
	}
	if diff := gocmp.Diff(want, shownDays(got)); diff != "" {
		t.Errorf("days (-want +got):\n%s", diff)
	}
	wantRefused := []api.RefusedAccount{
		{Account: "acc_1", Label: "label of acc_1", Plan: "starter", Calls: 5, Codes: map[string]int64{"quota_exceeded": 3, "invalid_token": 2}},
		{Account: "acc_2", Label: "label of acc_2", Plan: "monthly", Calls: 4, Codes: map[string]int64{"quota_exceeded": 4}},
	}
	if diff := gocmp.Diff(wantRefused, got.MostRefused); diff != "" {
		t.Errorf("most refused (-want +got):\n%s", diff)
	}
	if len(got.Nearest) != 1 || got.Nearest[0].Account != "acc_1" || got.Nearest[0].Used != 500 {
		t.Errorf("nearest: got %+v", got.Nearest)
	}
}

// TestSummarizeOfManyRows reads several pages of accounts and of refused calls, and
// keeps ten of each.
func TestSummarizeOfManyRows(t *testing.T) {
	t.Parallel()
	s := openAtNow(t)
	today := compile(t, "Europe/Berlin").Calendar.At(now).Day
	var refused []store.Refused
	for i := range 450 {
		id := fmt.Sprintf("acc_%03d", i)
		putAccount(t, s, id, "starter", false)
		spend(t, s, id, "convert", today-1, 1)
		spend(t, s, id, "convert", today, int64(i*37%450+1))
		for _, code := range []string{"a", "b", "c"} {
			refused = append(refused, store.Refused{Day: today, Account: id, Code: code, Calls: int64(i*41%450 + 1)})
		}
	}
	if err := s.AddRefused(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
	got := summarize(t, s, api.Summary{})
	const all = 450 * 451 / 2
	want := map[string]string{
		"2126-11-20": fmt.Sprintf("map[convert:%d] map[a:%d b:%d c:%d]", all, all, all, all),
		"2126-11-19": "map[convert:450] map[]",
	}
	if diff := gocmp.Diff(want, shownDays(got)); diff != "" || got.Accounts != 450 {
		t.Errorf("%d accounts, days (-want +got):\n%s", got.Accounts, diff)
	}
	if len(got.Nearest) != 10 || len(got.MostRefused) != 10 {
		t.Fatalf("got %d and %d", len(got.Nearest), len(got.MostRefused))
	}
	for i := range 10 {
		if got.Nearest[i].Used != int64(450-i) || got.MostRefused[i].Calls != int64(3*(450-i)) {
			t.Errorf("%d: got %+v and %+v", i, got.Nearest[i], got.MostRefused[i])
		}
	}
}

// TestSummarizeKeepsDays: the days of the last summary are used again, but its
// last two, in which calls could still be counted after it was made.
func TestSummarizeKeepsDays(t *testing.T) {
	t.Parallel()
	s := openAtNow(t)
	today := compile(t, "Europe/Berlin").Calendar.At(now).Day
	putAccount(t, s, "acc_1", "starter", false)
	for day := today - 35; day <= today; day++ {
		spend(t, s, "acc_1", "convert", day, 1)
	}
	first := summarize(t, s, api.Summary{})
	for name, test := range map[string]struct {
		from, to calendar.Day // of the last summary
		read     calendar.Day // the first day that is read again
	}{
		"of today":        {today - 29, today, today - 1},
		"of yesterday":    {today - 30, today - 1, today - 2},
		"of last month":   {today - 60, today - 31, today - 29},
		"of the future":   {today - 20, today + 9, today - 29},
		"with later days": {today - 29, today + 9, today - 1},
		"short":           {today, today, today - 29},
	} {
		last := api.Summary{}
		for day := test.from; day <= test.to; day++ {
			last.Days = append(last.Days, api.SummaryDay{Day: day.String(), Calls: map[string]int64{"kept": 1}})
		}
		got := summarize(t, s, last)
		for i, d := range got.Days {
			want := map[string]int64{"kept": 1}
			if today-29+calendar.Day(i) >= test.read {
				want = map[string]int64{"convert": 1}
			}
			if !maps.Equal(d.Calls, want) {
				t.Errorf("%s: %s: got %v, want %v", name, d.Day, d.Calls, want)
			}
		}
	}
	if diff := gocmp.Diff(first, summarize(t, s, first)); diff != "" {
		t.Errorf("the second summary differs (-first +second):\n%s", diff)
	}
}

// failingEngine has no counts now.
type failingEngine struct{ book.Engine }

func (failingEngine) CountsOfAccounts(context.Context, []string, calendar.Day, calendar.Day) ([]store.StoredCount, error) {
	return nil, store.ErrUnavailable
}

func TestSummarizeFails(t *testing.T) {
	t.Parallel()
	s := openAtNow(t)
	got := summarize(t, s, api.Summary{})
	if got.Nearest == nil || got.MostRefused == nil || len(got.Days) != 30 || got.Days[0].Calls == nil || got.Days[0].Refused == nil {
		t.Errorf("an empty store: got %+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := report.Summarize(ctx, compile(t, ""), s.Book, now, api.Summary{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	broken := book.New(failingEngine{s.Engine}, slog.New(slog.DiscardHandler))
	if _, err := report.Summarize(t.Context(), compile(t, ""), broken, now, api.Summary{}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
