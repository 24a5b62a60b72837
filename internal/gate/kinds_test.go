package gate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// TestEventsOfKinds: a soft limit has an event when it is used up and one when it
// refuses, a total has no end, and a limit of calls is another one than that of the
// cost.
func TestEventsOfKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *policy.Config) {
		c.Endpoints[0].Unit, c.Endpoints[1].Cost = "tokens", 2
		c.Plans[0].Limits = nil
		c.Plans[0].MoreLimits = []policy.LimitConfig{
			{Endpoint: "convert", Period: "week", Limit: 2, Soft: 3}, {Endpoint: "rates", Limit: 4}, {Endpoint: "rates", Limit: 2, Calls: true}, {Endpoint: "all", Period: "total", Limit: 6},
		}
	})
	bearer := w.account(t, "acc_1")
	var last *httptest.ResponseRecorder
	ask := func(target string, calls int, status int, code string) {
		t.Helper()
		for n := range calls {
			if last = w.get(t, target, bearer); n < calls-1 && last.Code != http.StatusOK {
				t.Errorf("call %d of %s: got %d %s", n, target, last.Code, last.Body)
			}
		}
		if last.Code != status || code != "" && !strings.Contains(last.Body.String(), `"code":"`+code+`"`) {
			t.Errorf("%s: got %d %s, want %d %s", target, last.Code, last.Body, status, code)
		}
	}
	ask(convert, 2, 200, "")
	if got := last.Header().Get("Ratelimit-Policy") + " " + last.Header().Get("Ratelimit"); got != `"convert-week";q=2;qu="tokens";w=604800, "all-total";q=6 "convert-week";r=0;t=388800, "all-total";r=4` {
		t.Errorf("got %s", got)
	}
	ask(convert, 2, 429, "quota_exceeded")
	ask("/api/rates/EUR", 2, 429, "quota_exhausted")
	if h := last.Header(); h.Get("Retry-After") != "" || h.Get("X-Should-Retry") != "false" {
		t.Errorf("got %v", h)
	}
	var got []string
	for _, q := range w.reached {
		end := "without an end"
		if !q.End.IsZero() {
			end = "until " + q.End.Format(time.DateOnly)
		}
		got = append(got, fmt.Sprint(q.Endpoint, " ", q.Period, " ", q.Limit, " ", q.Soft, " ", q.Calls, " ", end))
	}
	want := []string{
		"convert week 2 true false until 2126-11-25", "convert week 2 true false until 2126-11-25", // stored once
		"convert week 2 true false until 2126-11-25", "convert week 3 false false until 2126-11-25", "all total 6 false false without an end",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got events %q, want %q", got, want)
	}
}

// TestUnitsInRefusals: a unit is written as it is, since not each plural has a
// singular without an s.
func TestUnitsInRefusals(t *testing.T) {
	t.Parallel()
	for unit, want := range map[string]string{"": "1 call a day to convert", "entries": "1 entries a day to convert", "data": "1 data a day to convert"} {
		w := newWorld(t, func(c *policy.Config) {
			c.Endpoints[0].Unit = unit
			c.Plans[0].Limits["convert"] = new(policy.Limit(1))
		})
		bearer := w.account(t, "acc_1")
		w.get(t, convert, bearer)
		if got := w.get(t, convert, bearer).Body.String(); !strings.Contains(got, want) {
			t.Errorf("unit %q: got %s, want %q", unit, got, want)
		}
	}
}
