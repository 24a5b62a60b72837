package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics answers GET /metrics for Prometheus with the age of the rates. It
// says no more than GET /healthz, because the gate passes both on.
func metrics(rates Rates, now func() time.Time) http.Handler {
	registry := prometheus.NewRegistry()
	for _, g := range []struct {
		name, help string
		value      func() float64
	}{
		{"date_timestamp_seconds", "The day of the newest rates, as the time at which it began in UTC.", func() float64 {
			return float64(rates.Current().Newest().Time().Unix())
		}},
		{"missed_publications", "Publications of the bank that should be there and are not.", func() float64 {
			return float64(rates.Missed(now()))
		}},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "tollgate", Subsystem: "rates", Name: g.name, Help: g.help}, g.value))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
