package web_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store/benchtest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web"
)

// manyAccounts is the number of accounts of the benchmark.
const manyAccounts = 100_000

// BenchmarkOperator opens the operator's pages over a gate with many accounts on
// disk.
func BenchmarkOperator(b *testing.B) {
	days, err := calendar.New(controltest.Config().Timezone)
	if err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(b.TempDir(), "store")
	if err := benchtest.RestoreBadger(dir, benchtest.Accounts(manyAccounts, days.At(time.Now()).Day, time.Now().AddDate(0, -2, 0))); err != nil {
		b.Fatal(err)
	}
	engine, err := benchtest.OpenBadger(dir)
	if err != nil {
		b.Fatal(err)
	}
	gate := controltest.Over(b, engine.Engine)
	gate.SetClock(time.Now)
	server := httptest.NewServer(gate.Handler())
	b.Cleanup(server.Close)
	control, err := client.New(server.URL, controltest.Secret)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 200 {
		if _, err := control.PutAccount(client.WithReason(b.Context(), "many"), "acc_00050000", api.AccountChange{Plan: new([]string{"business", "starter"}[i%2])}); err != nil {
			b.Fatal(err)
		}
	}
	p, _ := newWorld(b, func(c *web.Config) { c.Gate = control }).operator()
	if _, err := control.Summary(b.Context()); err != nil { // the gate keeps it
		b.Log(err)
	}
	for name, open := range map[string]func() answer{
		"today":         func() answer { return p.get("/operator") },
		"accounts":      func() answer { return p.get("/operator/accounts?after=acc_00070000") },
		"plan":          func() answer { return p.get("/operator/accounts?plan=business") },
		"search-email":  func() answer { return p.get("/operator/accounts?search=person-9999%40") },
		"search-none":   func() answer { return p.get("/operator/accounts?search=nobody") },
		"search-key":    func() answer { return p.get("/operator/accounts?search=9999") },
		"account":       func() answer { return p.get(accountPage("acc_00050000")) },
		"audit":         func() answer { return p.get("/operator/audit") },
		"audit-account": func() answer { return p.get("/operator/audit?account=acc_00070000") },
		"try": func() answer {
			return p.post("/operator/try", "method", "GET", "target", "/api/convert/EUR/1/USD", "account", "person-99999@example.com")
		},
	} {
		b.Run(name, func(b *testing.B) {
			size := 0
			for b.Loop() {
				a := open()
				if a.status != http.StatusOK {
					b.Fatalf("got %d: %s", a.status, a.body)
				}
				size = len(a.body)
			}
			b.ReportMetric(float64(size), "bytes/page")
		})
	}
}
