package caddymodule

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/book"
)

const (
	// figuresFor is how long the numbers of a store are used again.
	figuresFor = 5 * time.Second

	// figuresTimeout is how long a scrape waits for the numbers of a store.
	figuresTimeout = time.Second
)

// storeGauges collects the metrics of the store of the configuration in
// force. It asks the store when the metrics are read.
type storeGauges struct{}

var (
	storeWorks   = describe("store_works", "Whether the store works: 1 or 0. It is 0 also while the store is being opened.")
	webhookQueue = describe("webhook_queue", "Events that wait for delivery to the webhook.")
	accounts     = describe("accounts", "Accounts in the store.")
	liveKeys     = describe("live_keys", "API keys and login tokens that are neither revoked nor expired. It can be some minutes old.")
)

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, nil, nil)
}

// Describe implements prometheus.Collector.
func (storeGauges) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{storeWorks, webhookQueue, accounts, liveKeys} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. Numbers that the store does not
// return in time are left out.
func (storeGauges) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value))
	}
	var open *state
	if app := current(); app != nil {
		open = app.state.Load()
	}
	if open == nil || open.health.Readiness().Status != api.Ready {
		gauge(storeWorks, 0)
		return
	}
	gauge(storeWorks, 1)
	totals, queued, err := open.figures.read(open.book)
	if err != nil {
		return
	}
	gauge(webhookQueue, queued)
	gauge(accounts, totals.Accounts)
	gauge(liveKeys, totals.LiveKeys)
}

// figures caches the numbers of one store.
type figures struct {
	mu     sync.Mutex
	at     time.Time
	totals store.Totals
	queued int
	err    error
}

// read returns the numbers, at most figuresFor old.
func (f *figures) read(of *book.Book) (store.Totals, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.IsZero() || time.Since(f.at) > figuresFor {
		ctx, cancel := context.WithTimeout(context.Background(), figuresTimeout)
		defer cancel()
		if f.totals, f.err = of.Totals(ctx); f.err == nil {
			f.queued, f.err = of.QueuedEvents(ctx)
		}
		f.at = time.Now()
	}
	return f.totals, f.queued, f.err
}
