package control_test

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// TestCountsOfDay reads the counts of a day page by page.
func TestCountsOfDay(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	c := client.InProcess(control.New(g.Gate, slog.New(slog.DiscardHandler)))
	today := g.Policy().Calendar.At(g.Now()).Day
	for _, call := range []store.Call{
		{Account: "acc_1", Endpoint: "convert", Day: today, Cost: 3}, {Account: "acc_1", Endpoint: "currencies", Day: today},
		{Account: "acc_1", Endpoint: "convert", Day: today - 1, Cost: 9}, {Account: "acc_3", Endpoint: "convert", Day: today},
	} {
		if ok, err := g.Opened().Take(t.Context(), call, nil, nil); !ok || err != nil {
			t.Fatalf("taking a call: %v, %v", ok, err)
		}
	}
	for _, id := range []string{"acc_1", "acc_2", "acc_3"} {
		g.account(t, id, "starter")
	}
	for day, want := range map[string][]api.UsageCount{
		"2126-11-20": {{Account: "acc_1", Endpoint: "convert", Calls: 3}, {Account: "acc_1", Endpoint: "currencies", Calls: 1}, {Account: "acc_3", Endpoint: "convert", Calls: 1}},
		"2126-11-19": {{Account: "acc_1", Endpoint: "convert", Calls: 9}},
		"2126-11-18": nil,
	} {
		for limit := 1; limit <= 4; limit++ {
			var got []api.UsageCount
			for after := ""; ; {
				page, err := c.CountsOfDay(t.Context(), day, after, limit)
				if err != nil || page.Day != day {
					t.Fatalf("%s: got %+v, %v", day, page, err)
				}
				got = append(got, page.Counts...)
				if page.Next == nil {
					break
				}
				after = *page.Next
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s with limit %d (-want +got):\n%s", day, limit, diff)
			}
		}
	}
	g.must(t, http.StatusOK, "GET", "/tollgate/usage/counts?day=2126-11-20&limit=1", "")
	for _, query := range []string{"", "?day=", "?day=today", "?day=2126-02-30", "?day=2126-11-20&limit=0", "?day=2126-11-20&limit=1001"} {
		if w := g.call(t, "GET", "/tollgate/usage/counts"+query, ""); w.Code != http.StatusBadRequest {
			t.Errorf("%q: got %d: %s", query, w.Code, w.Body)
		}
	}
}
