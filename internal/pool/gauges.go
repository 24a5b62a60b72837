package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/metrics"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

const (
	// figuresFor is how long the numbers of a store are used again.
	figuresFor = 5 * time.Second

	// figuresTimeout is how long a scrape waits for the numbers of a store.
	figuresTimeout = time.Second
)

// Gauges collects the metrics of the store of the configuration in force. It
// asks the store when the metrics are read.
type Gauges struct {
	// InForce returns the open store or nil, and whether there is a webhook.
	InForce func() (open *Store, webhook bool)
}

var (
	storeWorks   = metrics.Describe("store_works", "Whether the store works: 1 or 0. It is 0 also while the store is being opened.")
	webhookQueue = metrics.Describe("webhook_queue", "Events that wait for delivery to the webhook.")
	webhookWait  = metrics.Describe("webhook_oldest_seconds", "How long the oldest of these events has waited, 0 without one or without a webhook.")
	lastBackup   = metrics.Describe("backup_last_success_timestamp_seconds", "When a backup of the store last succeeded, 0 if none did.")
	accounts     = metrics.Describe("accounts", "Accounts in the store.")
	liveKeys     = metrics.Describe("live_keys", "API keys and login tokens that are neither revoked nor expired. It can be some minutes old.")
)

// Describe implements prometheus.Collector.
func (Gauges) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{storeWorks, webhookQueue, webhookWait, lastBackup, accounts, liveKeys} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. Numbers that the store does not
// return in time are left out.
func (g Gauges) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	open, webhook := g.InForce()
	if open == nil || open.Health.Readiness().Status != api.Ready {
		gauge(storeWorks, 0)
		return
	}
	gauge(storeWorks, 1)
	now, err := open.figures.read(open.Book)
	if err != nil {
		return
	}
	gauge(accounts, float64(now.totals.Accounts))
	gauge(liveKeys, float64(now.totals.LiveKeys))
	wait, backup := 0.0, 0.0
	if !now.backup.IsZero() {
		backup = float64(now.backup.Unix())
	}
	gauge(lastBackup, backup)
	if now.unread {
		return
	}
	gauge(webhookQueue, float64(now.queued))
	if webhook && !now.oldest.IsZero() {
		wait = max(0, open.Clock.Since(now.oldest).Seconds())
	}
	gauge(webhookWait, wait)
}

// figures caches what a store says about itself.
type figures struct {
	mu     sync.Mutex
	at     time.Time
	now    numbers
	failed error
}

type numbers struct {
	totals         store.Totals
	queued         int       // events
	unread         bool      // the queue, which can be long
	oldest, backup time.Time // of the events, of the last success
}

// read returns the numbers, at most figuresFor old.
func (f *figures) read(of *book.Book) (numbers, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.at.IsZero() && time.Since(f.at) <= figuresFor {
		return f.now, f.failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), figuresTimeout)
	defer cancel()
	var n numbers
	var err, err2, err3 error
	n.totals, err = of.Totals(ctx)
	n.backup, err2 = of.LastBackup(ctx)
	n.queued, n.oldest, err3 = of.QueuedEvents(ctx)
	n.unread = err3 != nil
	f.at, f.now, f.failed = time.Now(), n, errors.Join(err, err2)
	return f.now, f.failed
}
