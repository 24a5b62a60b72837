// Package metrics has the metrics of the gate for Prometheus.
//
// They count from the start of the process. Caddy makes a new registry for each
// configuration, so a counter per registry would start at zero at each reload.
// Labels are endpoints, outcomes and modes, never accounts, keys, paths or
// addresses.
package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

var (
	requests = counters("requests_total",
		"Requests that the gate decided about, by endpoint, mode and outcome. The endpoint is empty if the request has none.",
		"endpoint", "mode", "outcome")
	logins     = counters("logins_total", "Login attempts, by outcome.", "outcome")
	deliveries = counters("webhook_deliveries_total", "Attempts to deliver an event to the webhook, and events that were given up, by outcome.", "outcome")
	fed        = counters("feed_messages_total", "Messages that were posted to the receiver of usage, by outcome.", "outcome")

	// RefusedDropped counts refused calls that no list has.
	RefusedDropped = counter("refused_dropped_total",
		"Refused calls that the list of refused calls will never have, because no store was open, or because the store failed until it was closed.")
	// EventsDropped counts events that Caddy's event handlers miss.
	EventsDropped = counter("events_dropped_total", "Events that the handlers of Caddy's app events did not get, because they are too slow.")

	decisionSeconds = histogram("decision_seconds", "The time from a metered request to the decision to pass or to refuse it.",
		prometheus.ExponentialBuckets(1e-6, 4, 12)) // to 4 s
	commitSeconds = histogram("commit_seconds", "The time that the store took to commit a group of calls.",
		prometheus.ExponentialBuckets(4e-6, 4, 11)) // to 4 s
	commitCalls = histogram("commit_calls", "The number of calls in a group that the store committed.",
		prometheus.ExponentialBuckets(1, 2, 13)) // to 4096
)

// buildInfo tells which version runs.
var buildInfo = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
	Namespace: namespace, Subsystem: subsystem, Name: "build_info", Help: "Always 1. The label has the version of the gate.",
	ConstLabels: prometheus.Labels{"version": api.Version()},
}, func() float64 { return 1 })

const namespace, subsystem = "caddy", "tollgate"

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, Buckets: buckets})
}

// Describe returns the description of a gauge that is read from elsewhere.
func Describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, nil, nil)
}

// CountDelivery counts n deliveries to the webhook: attempts that were
// "delivered" or "failed", and events that were given up: "expired" after 24
// hours, or "dropped" because too many waited or the store did not take them.
func CountDelivery(outcome string, n int) { deliveries.WithLabelValues(outcome).Add(float64(n)) }

// CountFed counts n messages of a feed: "delivered", "failed", or "refused" by a
// receiver that takes others.
func CountFed(outcome string, n int) { fed.WithLabelValues(outcome).Add(float64(n)) }

// Committed measures a group of calls that a store committed.
func Committed(took time.Duration, calls int) {
	commitSeconds.Observe(took.Seconds())
	commitCalls.Observe(float64(calls))
}

// Meter counts what one gate decides. It resolves the labels once. It has the
// methods of gate.Server that count.
type Meter struct {
	none      [outcome.Calls]prometheus.Counter
	endpoints [][outcome.Calls]prometheus.Counter // by Endpoint.Index
	logins    [outcome.Logins]prometheus.Counter
}

// New returns the meter of a configuration, and registers all metrics and those
// of its store.
func New(registry prometheus.Registerer, p *policy.Policy, store prometheus.Collector) (*Meter, error) {
	for _, collector := range []prometheus.Collector{
		requests, logins, deliveries, fed, RefusedDropped, EventsDropped, decisionSeconds, commitSeconds, commitCalls, store, buildInfo,
	} {
		var already prometheus.AlreadyRegisteredError
		if err := registry.Register(collector); err != nil && !errors.As(err, &already) {
			return nil, err
		}
	}
	m := &Meter{endpoints: make([][outcome.Calls]prometheus.Counter, len(p.Endpoints))}
	for o := range outcome.Calls {
		label := outcome.Call(o).String()
		m.none[o] = requests.WithLabelValues("", string(p.Mode), label)
		for i, e := range p.Endpoints {
			m.endpoints[i][o] = requests.WithLabelValues(e.Name, string(p.Mode), label)
		}
	}
	for o := range outcome.Logins {
		m.logins[o] = logins.WithLabelValues(outcome.Login(o).String())
	}
	for _, outcome := range []string{"delivered", "failed", "expired", "dropped"} {
		deliveries.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"delivered", "failed", "refused"} {
		fed.WithLabelValues(outcome)
	}
	return m, nil
}

// Count counts a request that the gate decided about.
func (m *Meter) Count(endpoint *policy.Endpoint, result outcome.Call) {
	if endpoint == nil {
		m.none[result].Inc()
		return
	}
	m.endpoints[endpoint.Index][result].Inc()
}

// CountLogin counts a login attempt.
func (m *Meter) CountLogin(result outcome.Login) { m.logins[result].Inc() }

// Decided measures a decision.
func (*Meter) Decided(took time.Duration) { decisionSeconds.Observe(took.Seconds()) }
