package admin_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// TestBillingDay: a change ends no month early, and the answer says when the running
// one ends.
func TestBillingDay(t *testing.T) {
	t.Parallel()
	g := newGate(t) // on 2126-11-20 in Berlin
	const path = "/tollgate/accounts/acc_1"
	for _, step := range []struct {
		body, start, ends string
		day               any
		wait              time.Duration
	}{
		{`{"billing_day":31}`, "2126-10-31", "2126-11-30T00:00:00+01:00", 31.0, 0},
		{`{"billing_day":31}`, "2126-10-31", "2126-11-30T00:00:00+01:00", 31.0, 0},
		{`{"billing_day":21}`, "2126-10-31", "2126-11-21T00:00:00+01:00", 21.0, 0},
		{`{"billing_day":20}`, "2126-10-31", "2126-12-20T00:00:00+01:00", 20.0, 15 * time.Hour},
		{`{}`, "2126-10-31", "2126-12-20T00:00:00+01:00", 20.0, 31 * 24 * time.Hour},
		{`{}`, "2126-12-20", "2127-01-20T00:00:00+01:00", 20.0, 0},
		{`{"billing_day":1}`, "2126-12-20", "2127-01-01T00:00:00+01:00", 1.0, 0},
	} {
		got := g.Must(t, http.StatusOK, "PUT", path, step.body)
		if got["billing_day"] != step.day || got["period_start"] != step.start || got["period_ends_at"] != step.ends {
			t.Errorf("%s: got %v, want day %v from %s to %s", step.body, got, step.day, step.start, step.ends)
		}
		g.Advance(step.wait)
	}
	for _, body := range []string{`{"billing_day":0}`, `{"billing_day":32}`, `{"billing_day":"1"}`} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "PUT", path, body)
	}
}

// TestPlanUntil: a plan ends at an instant, for the account, lists and the grant, and
// the log has it once.
func TestPlanUntil(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	const path = "/tollgate/accounts/acc_1"
	check := func(plan, until any) {
		t.Helper()
		got := g.Must(t, http.StatusOK, "GET", path, "")
		if got["plan"] != plan || got["plan_until"] != until {
			t.Errorf("got %v, want plan %v until %v", got, plan, until)
		}
		if list := g.Must(t, http.StatusOK, "GET", "/tollgate/accounts?plan="+plan.(string), "")["accounts"].([]any); len(list) != 1 {
			t.Errorf("%d accounts on %s", len(list), plan)
		}
	}
	g.Must(t, http.StatusOK, "PUT", path, `{"plan":"business","plan_until":"2126-11-21T00:00:00+01:00","then":"starter"}`)
	check("business", "2126-11-20T23:00:00Z")
	g.Advance(14*time.Hour - time.Millisecond)
	check("business", "2126-11-20T23:00:00Z")
	g.Advance(time.Millisecond)
	check("starter", nil)
	for range 2 {
		opened := g.Opened().WithClock(g.Now)
		if err := opened.EndPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	check("starter", nil)
	entries, err := g.Opened().Entries(t.Context(), store.EntryID{Milliseconds: -1}, store.EntryID{}, false, 100)
	if err != nil {
		t.Fatal(err)
	}
	var ended []string
	for _, e := range entries {
		if text, err := json.Marshal(book.Piece{Entry: &e}); err != nil {
			t.Fatal(err)
		} else if strings.Contains(string(text), `"actor_id":"plan_until"`) {
			ended = append(ended, string(text))
		}
	}
	const change = `"before":{"account":"acc_1","disabled":false,"plan":"business","plan_until":"2126-11-20T23:00:00Z"},"after":{"account":"acc_1","disabled":false,"plan":"starter"}`
	if len(ended) != 1 || !strings.Contains(ended[0], change) {
		t.Errorf("the log has %q", ended)
	}

	g.Must(t, http.StatusOK, "PUT", path, `{"plan_until":"2127-01-01T00:00:00Z"}`)
	if got := g.Must(t, http.StatusOK, "GET", path, ""); got["then"] != policy.FreePlan {
		t.Errorf("got %v", got)
	}
	g.Must(t, http.StatusOK, "PUT", path, `{"plan":"starter"}`) // has no end
	check("starter", nil)
	g.Must(t, http.StatusOK, "PUT", path, `{"plan_until":"2127-01-01T00:00:00Z"}`)
	g.Must(t, http.StatusOK, "PUT", path, `{"plan_until":null}`)
	check("starter", nil)
	for body, code := range map[string]string{
		`{"then":"starter"}`: "invalid_request", `{"plan_until":"2126-11-20T00:00:00Z"}`: "invalid_request",
		`{"plan_until":"2127-01-01T00:00:00Z","then":"gold"}`: "unknown_plan", `{"plan_until":"2127-01-01"}`: "invalid_request",
		`{"plan_until":null,"then":"starter"}`: "invalid_request", `{"plan_until":"9999-12-31T23:59:59-12:00"}`: "invalid_request",
	} {
		g.Refused(t, http.StatusBadRequest, code, "PUT", path, body)
	}
}

// TestEndPlansWithinASecond: the log gets the end of a plan that is not at a whole
// second, also if the gate looks within that second.
func TestEndPlansWithinASecond(t *testing.T) {
	t.Parallel()
	g := newGate(t) // at a whole second
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"plan":"business","plan_until":"2126-11-20T10:00:00.5Z"}`)
	for _, wait := range []time.Duration{time.Hour + 200*time.Millisecond, time.Second} {
		g.Advance(wait)
		if err := g.Opened().WithClock(g.Now).EndPlans(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a, err := g.Opened().Engine.Get(t.Context(), "acc_1")
	if err != nil || a.Plan != policy.FreePlan || !a.PlanUntil.IsZero() {
		t.Errorf("the document has %+v, %v", a, err)
	}
}
