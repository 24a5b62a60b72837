package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics answers GET /metrics for Prometheus with the age of the rates, and the
// time of the last copy of the accounts: those that are not nil. The gate passes
// it on to everyone.
func metrics(age func() *ratesAge, copied func() time.Time) http.Handler {
	registry := prometheus.NewRegistry()
	gauge := func(name, help string, value func() int64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	if age() != nil {
		gauge("currency_rates_age_days", "Days since the day of the bank's newest rates.", func() int64 { return int64(age().AgeDays) })
		gauge("currency_rates_missed_publications", "Publications of the bank that should be there and are not.", func() int64 { return int64(age().Missed) })
	}
	if copied != nil {
		gauge("tollgate_accounts_backup_last_success_timestamp_seconds", "When a copy of the accounts last succeeded, 0 if none did.", func() int64 {
			return max(0, copied().Unix()) // a zero time is before 1970
		})
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
