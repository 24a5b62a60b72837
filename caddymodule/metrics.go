package caddymodule

import (
	"errors"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
)

// requests counts from the start of the process. Caddy makes a new registry
// for each configuration, so a counter per registry would start at zero at
// each reload. Labels are endpoints and outcomes, never accounts, keys or
// paths.
var requests = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: "caddy",
	Subsystem: "tollgate",
	Name:      "requests_total",
	Help:      "Requests that the gate decided about, by endpoint and outcome. The endpoint is empty if the request has none.",
}, []string{"endpoint", "outcome"})

// storeWorks tells whether the store of several gates works, 1 or 0. The store
// reports it at each look at its server.
var storeWorks = prometheus.NewGauge(prometheus.GaugeOpts{
	Namespace: "caddy",
	Subsystem: "tollgate",
	Name:      "store_works",
	Help:      "Whether the store of several gates works: 1 or 0. It is 0 also if the configuration has no such store.",
})

// storeState sets storeWorks.
func storeState(works bool) {
	value := 0.0
	if works {
		value = 1
	}
	storeWorks.Set(value)
}

// deliveries counts posts of events to the webhook, from the start of the
// process.
var deliveries = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: "caddy",
	Subsystem: "tollgate",
	Name:      "webhook_deliveries_total",
	Help:      "Posts of events to the webhook, by outcome.",
}, []string{"outcome"})

// countDelivery counts n events with an outcome of package event.
func countDelivery(outcome string, n int) { deliveries.WithLabelValues(outcome).Add(float64(n)) }

// meter counts outcomes. It resolves the labels once.
type meter struct {
	none      [gate.Outcomes]prometheus.Counter
	endpoints [][gate.Outcomes]prometheus.Counter // by Endpoint.Index
}

func newMeter(ctx caddy.Context, p *policy.Policy) (*meter, error) {
	for _, collector := range []prometheus.Collector{requests, storeWorks, deliveries} {
		var already prometheus.AlreadyRegisteredError
		if err := ctx.GetMetricsRegistry().Register(collector); err != nil && !errors.As(err, &already) {
			return nil, err
		}
	}
	m := &meter{endpoints: make([][gate.Outcomes]prometheus.Counter, len(p.Endpoints))}
	for o := range gate.Outcomes {
		label := gate.Outcome(o).String()
		m.none[o] = requests.WithLabelValues("", label)
		for i, e := range p.Endpoints {
			m.endpoints[i][o] = requests.WithLabelValues(e.Name, label)
		}
	}
	return m, nil
}

func (m *meter) count(endpoint *policy.Endpoint, outcome gate.Outcome) {
	if endpoint == nil {
		m.none[outcome].Inc()
		return
	}
	m.endpoints[endpoint.Index][outcome].Inc()
}
