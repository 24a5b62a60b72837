package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics answers GET /metrics for Prometheus with the age of the rates. It
// says no more than GET /healthz, because the gate passes both on.
func metrics(age func() *ratesAge) http.Handler {
	registry := prometheus.NewRegistry()
	for _, g := range []struct {
		name, help string
		value      func() int
	}{
		{"age_days", "Days since the day of the bank's newest rates.", func() int { return age().AgeDays }},
		{"missed_publications", "Publications of the bank that should be there and are not.", func() int { return age().Missed }},
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Namespace: "currency", Subsystem: "rates", Name: g.name, Help: g.help},
			func() float64 { return float64(g.value()) },
		))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
