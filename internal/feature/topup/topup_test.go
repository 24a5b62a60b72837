package topup_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// gate is a gate whose plan starter gives 10 calls of convert and 100 of all in
// total.
func gate(t *testing.T) *controltest.Checked {
	t.Helper()
	g := controltest.NewChecked(t)
	g.Handled = feature.Handler(g.Gate, nil)
	config := controltest.Config()
	config.Plans[1].MoreLimits = []policy.LimitConfig{{Endpoint: "convert", Period: "total", Limit: 10}, {Endpoint: "all", Period: "total", Limit: 100}}
	g.Configure(t, config)
	g.Account(t, "acc_1", "starter")
	g.Account(t, "acc_2", "business")
	return g
}

// take counts calls as the gate does.
func take(t *testing.T, g *controltest.Checked, endpoint string, calls int64) {
	t.Helper()
	call := store.Call{Account: "acc_1", Endpoint: endpoint, Day: g.Policy().Calendar.At(g.Now()).Day, Cost: calls}
	limits := []store.Limit{{Endpoint: endpoint, Period: store.Total, Max: store.Unlimited}}
	if ok, err := g.Opened().Take(t.Context(), call, limits, make([]store.Room, 1)); !ok || err != nil {
		t.Fatalf("taking calls: %v, %v", ok, err)
	}
}

// TestTopUps: calls use the top-up that ends first, what is left of one that has
// ended is gone, and each is made once.
func TestTopUps(t *testing.T) {
	t.Parallel()
	g := gate(t)
	top := func(body string, want float64) {
		t.Helper()
		if got := g.Must(t, http.StatusCreated, "POST", "/tollgate/accounts/acc_1/topups", body)["remaining"]; got != want {
			t.Errorf("%s: %v remain, want %v", body, got, want)
		}
	}
	take(t, g, "convert", 4)
	top(`{"endpoint":"convert","calls":5,"id":"a"}`, 11)
	top(`{"endpoint":"convert","calls":20,"id":"b","expires_at":"2126-11-20T12:00:00Z"}`, 31)
	top(`{"endpoint":"convert","calls":20,"id":"b","expires_at":"2126-11-20T12:00:00Z"}`, 31)
	take(t, g, "convert", 6) // of b
	take(t, g, "usage", 3)
	top(`{"endpoint":"all","calls":1,"id":"c"}`, 91)
	g.Advance(4 * time.Hour) // 14 of b are gone
	if err := g.Opened().EndTopUps(t.Context(), "acc_1", "usage", g.Now()); err != nil {
		t.Fatal(err)
	}
	top(`{"endpoint":"convert","calls":1,"id":"d"}`, 12)
	take(t, g, "convert", 12)
	top(`{"endpoint":"convert","calls":1,"id":"d"}`, 0)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	g := gate(t)
	g.Must(t, http.StatusCreated, "POST", "/tollgate/accounts/acc_1/topups", `{"endpoint":"convert","calls":1,"id":"x"}`)
	for _, test := range []struct {
		account, body string
		status        int
		code          string
	}{
		{"acc_1", `{"endpoint":"convert","calls":2,"id":"x"}`, 409, "topup_exists"},
		{"acc_1", `{"endpoint":"all","calls":1,"id":"x"}`, 409, "topup_exists"},
		{"acc_1", `{"endpoint":"batch","calls":1,"id":"y"}`, 409, "no_total"},
		{"acc_2", `{"endpoint":"convert","calls":1,"id":"y"}`, 409, "no_total"},
		{"acc_3", `{"endpoint":"convert","calls":1,"id":"y"}`, 404, "not_found"},
		{"acc_1", `{"endpoint":"unknown","calls":1,"id":"y"}`, 404, "unknown_endpoint"},
		{"acc_1", `{"endpoint":"convert","calls":1,"id":"y","expires_at":"2126-11-20T08:00:00Z"}`, 400, "invalid_expiry"},
		{"acc_1", `{"endpoint":"convert","calls":1,"id":"y","expires_at":"9999-12-31T23:59:59-12:00"}`, 400, "invalid_expiry"},
		{"acc_1", `{"endpoint":"convert","calls":0,"id":"y"}`, 400, "invalid_request"},
		{"acc_1", `{"endpoint":"convert","calls":1}`, 400, "invalid_request"},
	} {
		w := g.Call(t, "POST", "/tollgate/accounts/"+test.account+"/topups", test.body)
		if w.Code != test.status || !strings.Contains(w.Body.String(), `"code":"`+test.code+`"`) {
			t.Errorf("%s %s: got %d %s, want %d %s", test.account, test.body, w.Code, w.Body, test.status, test.code)
		}
	}
}

// TestOfItsAccount: top-ups, their ids and what was used end with the account.
func TestOfItsAccount(t *testing.T) {
	t.Parallel()
	g := gate(t)
	const account, body = "/tollgate/accounts/acc_1", `{"endpoint":"convert","calls":5,"id":"a"}`
	take(t, g, "convert", 4)
	g.Must(t, http.StatusCreated, "POST", account+"/topups", body)
	g.Must(t, http.StatusNoContent, "DELETE", account, "")
	g.Refused(t, http.StatusNotFound, "not_found", "POST", account+"/topups", body)
	g.Account(t, "acc_1", "starter")
	if got := g.Must(t, http.StatusCreated, "POST", account+"/topups", body)["remaining"]; got != 15.0 {
		t.Errorf("%v remain, want 15", got)
	}
}

// TestMost: a total has store.MaxTopUps that end, and then still one without an end.
func TestMost(t *testing.T) {
	t.Parallel()
	g := gate(t)
	const path = "/tollgate/accounts/acc_1/topups"
	add := func(id, end string) string { return fmt.Sprintf(`{"endpoint":"convert","calls":1,"id":%q%s}`, id, end) }
	const end = `,"expires_at":"2126-12-01T00:00:00Z"`
	g.Must(t, http.StatusCreated, "POST", path, add("first", ""))
	for n := range store.MaxTopUps {
		g.Must(t, http.StatusCreated, "POST", path, add(fmt.Sprint(n), end))
	}
	g.Refused(t, http.StatusConflict, "too_many_topups", "POST", path, add("more", end))
	g.Must(t, http.StatusCreated, "POST", path, add("forever", ""))
	g.Advance(11 * 24 * time.Hour)
	g.Must(t, http.StatusCreated, "POST", path, add("more", `,"expires_at":"2127-12-01T00:00:00Z"`))
}

// TestEndsBesideNew: what lapses leaves the other totals of the account alone.
func TestEndsBesideNew(t *testing.T) {
	t.Parallel()
	g := gate(t)
	const path = "/tollgate/accounts/acc_1/topups"
	g.Must(t, http.StatusCreated, "POST", path, `{"endpoint":"convert","calls":5,"id":"a","expires_at":"2126-11-20T10:00:00Z"}`)
	g.Must(t, http.StatusCreated, "POST", path, `{"endpoint":"all","calls":5,"id":"b"}`)
	take(t, g, "convert", 3)
	take(t, g, "batch", 3)
	g.Advance(time.Hour)
	for range 2 {
		if err := g.Opened().EndTopUps(t.Context(), "acc_1", "usage", g.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for body, want := range map[string]float64{
		`{"endpoint":"convert","calls":1,"id":"c"}`: 11, // 3 of a were used, 2 are gone
		`{"endpoint":"all","calls":1,"id":"d"}`:     100,
	} {
		if got := g.Must(t, http.StatusCreated, "POST", path, body)["remaining"]; got != want {
			t.Errorf("%s: %v remain, want %v", body, got, want)
		}
	}
}
