package bill_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

const usagePath = "/tollgate/accounts/acc_1/usage"

func TestGetUsage(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Account(t, "acc_1", "starter")
	g.Take(t, "convert", 12)
	got := g.Must(t, http.StatusOK, "GET", usagePath, "")
	if got["account"] != "acc_1" || got["plan"] != "starter" || got["day"] != "2126-11-20" {
		t.Errorf("got %v", got)
	}
	if diff := cmp.Diff(map[string]float64{"currencies": 0, "convert": 12, "batch": 0, "usage": 0}, g.Used(t)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if _, ok := got["days"]; ok {
		t.Error("the document has days without a request for them")
	}
	if days := g.Must(t, http.StatusOK, "GET", usagePath+"?days=90", "")["days"].([]any); len(days) != 90 {
		t.Errorf("got %d days", len(days))
	}
	for _, query := range []string{"?days=0", "?days=91", "?days=-1", "?days=x", "?days=", "?days=1.5"} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", usagePath+query, "")
	}
	g.Refused(t, http.StatusNotFound, "not_found", "GET", "/tollgate/accounts/stranger/usage", "")
}

func TestResetUsage(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Account(t, "acc_1", "starter")
	g.Take(t, "convert", 5)
	g.Advance(24 * time.Hour)
	g.Take(t, "convert", 3)
	g.Take(t, "batch", 2)

	// Nothing may be given back by mistake.
	g.Refused(t, http.StatusBadRequest, "unknown_endpoint", "DELETE", usagePath+"?endpoint=other", "")
	g.Refused(t, http.StatusBadRequest, "invalid_request", "DELETE", usagePath+"?endpoint=", "")
	g.Refused(t, http.StatusBadRequest, "unknown_parameter", "DELETE", usagePath+"?endpoints=convert", "")
	g.Refused(t, http.StatusBadRequest, "invalid_reason", "DELETE", usagePath+"?reason=%00", "")
	g.Refused(t, http.StatusNotFound, "not_found", "DELETE", "/tollgate/accounts/stranger/usage", "")
	want := map[string]float64{"currencies": 0, "convert": 3, "batch": 2, "usage": 0}
	if diff := cmp.Diff(want, g.Used(t)); diff != "" {
		t.Errorf("after refused calls (-want +got):\n%s", diff)
	}

	g.Must(t, http.StatusNoContent, "DELETE", usagePath+"?endpoint=convert", "")
	want["convert"] = 0
	if diff := cmp.Diff(want, g.Used(t)); diff != "" {
		t.Errorf("after one endpoint (-want +got):\n%s", diff)
	}
	g.Take(t, "convert", 1)
	g.Must(t, http.StatusNoContent, "DELETE", usagePath, "")
	before := g.Entries(t)
	g.Must(t, http.StatusNoContent, "DELETE", usagePath, "")
	if got := g.Entries(t); got != before {
		t.Errorf("a reset of nothing has %d entries in the audit log", got-before)
	}
	want["convert"], want["batch"] = 0, 0
	if diff := cmp.Diff(want, g.Used(t)); diff != "" {
		t.Errorf("after all endpoints (-want +got):\n%s", diff)
	}
	days := g.Must(t, http.StatusOK, "GET", usagePath+"?days=2", "")["days"].([]any)
	if got := days[0].(map[string]any)["calls"].(map[string]any)["convert"]; got != 5.0 {
		t.Errorf("yesterday: got %v, want 5", got)
	}
	today := g.Must(t, http.StatusOK, "GET", usagePath, "")["endpoints"].([]any)[1].(map[string]any)
	if today["endpoint"] != "convert" || today["calls"] != 4.0 || today["credited"] != 4.0 || today["remaining"] != today["limit"] {
		t.Errorf("the calls of a reset stay: got %v", today)
	}
	credited := days[1].(map[string]any)
	if fmt.Sprint(credited["calls"], credited["credited"]) != "map[batch:2 convert:4 currencies:0 usage:0] map[batch:2 convert:4]" {
		t.Errorf("today in the history: got %v", credited)
	}
}

// TestCredit gives calls back: never more than there are, and once for each id.
func TestCredit(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	g.Account(t, "acc_1", "starter")
	g.Take(t, "convert", 5)
	g.Advance(24 * time.Hour)
	g.Take(t, "convert", 8)
	const path = "/tollgate/accounts/acc_1/credits"
	for name, c := range map[string]struct {
		status     int
		code, body string
	}{
		"no endpoint":      {400, "invalid_request", `{"calls":1}`},
		"unknown endpoint": {400, "unknown_endpoint", `{"endpoint":"other","calls":1}`},
		"no calls":         {400, "invalid_request", `{"endpoint":"convert"}`},
		"negative":         {400, "invalid_request", `{"endpoint":"convert","calls":-1}`},
		"zero":             {400, "invalid_request", `{"endpoint":"convert","calls":0}`},
		"too many":         {400, "invalid_request", `{"endpoint":"convert","calls":1000000000000001}`},
		"no day":           {400, "invalid_day", `{"endpoint":"convert","calls":1,"day":"today"}`},
		"tomorrow":         {400, "invalid_day", `{"endpoint":"convert","calls":1,"day":"2126-11-22"}`},
		"too long ago":     {400, "invalid_day", `{"endpoint":"convert","calls":1,"day":"2125-10-17"}`},
		"hidden reason":    {400, "invalid_reason", `{"endpoint":"convert","calls":1,"reason":"\u0000"}`},
		"long reason":      {400, "invalid_reason", `{"endpoint":"convert","calls":1,"reason":"` + strings.Repeat("é", 201) + `"}`},
		"invalid id":       {400, "invalid_request", `{"endpoint":"convert","calls":1,"id":"a b"}`},
	} {
		t.Log(name)
		g.Refused(t, c.status, c.code, "POST", path, c.body)
	}
	g.Refused(t, http.StatusNotFound, "not_found", "POST", "/tollgate/accounts/stranger/credits", `{"endpoint":"convert","calls":1}`)

	credit := func(body string, want float64) string {
		t.Helper()
		made := g.Must(t, http.StatusCreated, "POST", path, body)
		if called := map[any]float64{"2126-11-20": 5, "2126-11-21": 8}[made["day"]]; made["called"] != called || made["credited"] != want || made["account"] != "acc_1" || made["endpoint"] != "convert" {
			t.Errorf("%s: got %v, want %v credited", body, made, want)
		}
		return made["id"].(string)
	}
	credit(`{"endpoint":"convert","calls":2,"id":"one"}`, 2)
	credit(`{"endpoint":"convert","calls":2,"id":"one"}`, 2)
	g.Refused(t, http.StatusConflict, "credit_exists", "POST", path, `{"endpoint":"convert","calls":3,"id":"one"}`)
	g.Refused(t, http.StatusConflict, "credit_exists", "POST", path, `{"endpoint":"convert","calls":2,"id":"one","day":"2126-11-20"}`)
	if a, b := credit(`{"endpoint":"convert","calls":1}`, 1), credit(`{"endpoint":"convert","calls":1}`, 1); a == b {
		t.Errorf("two credits without an id have the id %s", a)
	}
	if used := g.Used(t)["convert"]; used != 4 {
		t.Errorf("used %v after credits of 4 of 8 calls", used)
	}
	credit(`{"endpoint":"convert","calls":9,"day":"2126-11-20"}`, 5) // more than there were
	credit(`{"endpoint":"convert","calls":9}`, 4)
	nothing := func(body, why string) {
		t.Helper()
		g.Refused(t, http.StatusConflict, "nothing_to_credit", "POST", path, body)
		if got := g.Call(t, "POST", path, body).Body.String(); !strings.Contains(got, why) {
			t.Errorf("%s: got %s, want %q", body, got, why)
		}
	}
	before := g.Entries(t)
	nothing(`{"endpoint":"convert","calls":9,"id":"two"}`, "All 8 calls of convert on 2126-11-21 were given back before.")
	nothing(`{"endpoint":"batch","calls":9,"id":"three"}`, "The account has no calls of batch on 2126-11-21 that count.")
	if got := g.Entries(t); got != before {
		t.Errorf("credits of nothing have %d entries in the audit log", got-before)
	}
	g.Take(t, "batch", 1)
	if made := g.Must(t, http.StatusCreated, "POST", path, `{"endpoint":"batch","calls":9,"id":"three"}`); made["credited"] != 1.0 {
		t.Errorf("once there are calls: got %v", made)
	}
	g.Take(t, "gone", 2)
	if made := g.Must(t, http.StatusCreated, "POST", path, `{"endpoint":"gone","calls":1}`); made["credited"] != 1.0 {
		t.Errorf("a credit of an endpoint that the configuration does not have any more: got %v", made)
	}
	g.Advance(24 * time.Hour)
	credit(`{"endpoint":"convert","calls":2,"id":"one"}`, 2) // repeated behind midnight
	g.Take(t, "convert", 1)
	if used := g.Used(t)["convert"]; used != 1 {
		t.Errorf("a repeated credit changed the next day: used %v", used)
	}
	rows := g.Must(t, http.StatusOK, "GET", "/tollgate/usage/counts?month=2126-11", "")["counts"]
	var got []string
	for _, row := range rows.([]any) {
		row := row.(map[string]any)
		got = append(got, fmt.Sprint(row["day"], " ", row["endpoint"], " ", row["calls"], " ", row["credited"]))
	}
	if want := "2126-11-20 convert 5 5, 2126-11-21 batch 1 1, 2126-11-21 convert 8 8, 2126-11-21 gone 2 1, 2126-11-22 convert 1 0"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCountsOfAll reads the counts of accounts in pages.
func TestCountsOfAll(t *testing.T) {
	t.Parallel()
	g := controltest.NewChecked(t)
	for _, query := range []string{"", "?day=", "?day=x", "?day=2126-02-30", "?day=2126-11-20&limit=0", "?month=2126", "?month=2126-13", "?day=9999-12-31", "?month=9999-12", "?day=2126-11-20&month=2126-11"} {
		g.Refused(t, http.StatusBadRequest, "invalid_request", "GET", "/tollgate/usage/counts"+query, "")
	}
	g.Account(t, "acc_1", "starter")
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"label":"Ada"}`)
	g.Take(t, "convert", 3)
	g.Must(t, http.StatusNoContent, "DELETE", "/tollgate/accounts/acc_1", "")
	g.Must(t, http.StatusOK, "PUT", "/tollgate/accounts/acc_1", `{"plan":"business"}`)
	g.Take(t, "convert", 1)
	if used := g.Used(t)["convert"]; used != 1 {
		t.Errorf("a new account has used %v, want 1", used)
	}
	page := g.Must(t, http.StatusOK, "GET", "/tollgate/usage/counts?day=2126-11-20", "")
	want := []any{
		map[string]any{"day": "2126-11-20", "account": "acc_1", "endpoint": "convert", "calls": 3.0, "credited": 0.0, "label": "", "plan": "starter", "closed": true, "overage": 0.0, "period_start": "2126-11-01"},
		map[string]any{"day": "2126-11-20", "account": "acc_1", "endpoint": "convert", "calls": 1.0, "credited": 0.0, "label": "", "plan": "business", "closed": false, "overage": 0.0, "period_start": "2126-11-01"},
	}
	if diff := cmp.Diff(want, page["counts"]); diff != "" || page["next"] != nil {
		t.Errorf("got %v (-want +got):\n%s", page, diff)
	}
}
