package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// TestReload: Caddy makes a registry for each configuration, and the counts go on.
func TestReload(t *testing.T) {
	t.Parallel()
	compiled, err := policy.New(policy.Config{Guard: []string{"/api/"}, Endpoints: []policy.EndpointConfig{{Name: "convert", Patterns: []string{"GET /api/convert"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for want := 1.0; want <= 3; want++ {
		registry := prometheus.NewRegistry()
		m, err := metrics.New(registry, compiled, prometheus.NewGauge(prometheus.GaugeOpts{Name: "of_the_store"}))
		if err != nil {
			t.Fatal(err)
		}
		m.Count(compiled.Endpoints[0], outcome.Admitted)
		m.Count(nil, outcome.NotFound)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, family := range families {
			if family.GetName() == "caddy_tollgate_requests_total" {
				for _, series := range family.GetMetric() {
					sum += series.GetCounter().GetValue()
				}
			}
		}
		if sum != 2*want {
			t.Errorf("got %v requests, want %v", sum, 2*want)
		}
	}
}
