package control_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

const usagePath = "/tollgate/accounts/acc_1/usage"

// take admits calls of acc_1 today.
func (g *gate) take(t *testing.T, endpoint string, calls int) {
	t.Helper()
	opened := g.Opened()
	call := store.Call{Account: "acc_1", Endpoint: endpoint, Day: g.Policy().Calendar.At(g.Now()).Day, At: g.Now(), Cost: 1}
	for range calls {
		if ok, err := opened.Take(t.Context(), call, nil, nil); !ok || err != nil {
			t.Fatalf("taking a call: %v, %v", ok, err)
		}
	}
}

// used returns today's counts.
func (g *gate) used(t *testing.T) map[string]float64 {
	t.Helper()
	used := map[string]float64{}
	for _, row := range g.must(t, http.StatusOK, "GET", usagePath, "")["endpoints"].([]any) {
		row := row.(map[string]any)
		used[row["endpoint"].(string)] = row["used"].(float64)
	}
	return used
}

func TestGetUsage(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	g.take(t, "convert", 12)
	got := g.must(t, http.StatusOK, "GET", usagePath, "")
	if got["account"] != "acc_1" || got["plan"] != "starter" || got["day"] != "2126-11-20" {
		t.Errorf("got %v", got)
	}
	if diff := cmp.Diff(map[string]float64{"currencies": 0, "convert": 12, "batch": 0, "usage": 0}, g.used(t)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if _, ok := got["days"]; ok {
		t.Error("the document has days without a request for them")
	}
	if days := g.must(t, http.StatusOK, "GET", usagePath+"?days=90", "")["days"].([]any); len(days) != 90 {
		t.Errorf("got %d days", len(days))
	}
	for _, query := range []string{"?days=0", "?days=91", "?days=-1", "?days=x", "?days=", "?days=1.5"} {
		g.refused(t, http.StatusBadRequest, "invalid_request", "GET", usagePath+query, "")
	}
	g.refused(t, http.StatusNotFound, "not_found", "GET", "/tollgate/accounts/stranger/usage", "")
}

func TestResetUsage(t *testing.T) {
	t.Parallel()
	g := newGate(t)
	g.account(t, "acc_1", "starter")
	g.take(t, "convert", 5)
	g.Advance(24 * time.Hour)
	g.take(t, "convert", 3)
	g.take(t, "batch", 2)

	// Nothing may be given back by mistake.
	g.refused(t, http.StatusBadRequest, "unknown_endpoint", "DELETE", usagePath+"?endpoint=other", "")
	g.refused(t, http.StatusBadRequest, "invalid_request", "DELETE", usagePath+"?endpoint=", "")
	g.refused(t, http.StatusBadRequest, "unknown_parameter", "DELETE", usagePath+"?endpoints=convert", "")
	g.refused(t, http.StatusNotFound, "not_found", "DELETE", "/tollgate/accounts/stranger/usage", "")
	want := map[string]float64{"currencies": 0, "convert": 3, "batch": 2, "usage": 0}
	if diff := cmp.Diff(want, g.used(t)); diff != "" {
		t.Errorf("after refused calls (-want +got):\n%s", diff)
	}

	g.must(t, http.StatusNoContent, "DELETE", usagePath+"?endpoint=convert", "")
	want["convert"] = 0
	if diff := cmp.Diff(want, g.used(t)); diff != "" {
		t.Errorf("after one endpoint (-want +got):\n%s", diff)
	}
	g.take(t, "convert", 1)
	g.must(t, http.StatusNoContent, "DELETE", usagePath, "")
	want["convert"], want["batch"] = 0, 0
	if diff := cmp.Diff(want, g.used(t)); diff != "" {
		t.Errorf("after all endpoints (-want +got):\n%s", diff)
	}
	days := g.must(t, http.StatusOK, "GET", usagePath+"?days=2", "")["days"].([]any)
	if got := days[0].(map[string]any)["calls"].(map[string]any)["convert"]; got != 5.0 {
		t.Errorf("yesterday: got %v, want 5", got)
	}
}
