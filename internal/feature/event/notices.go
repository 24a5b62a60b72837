package event

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/outage"
)

const (
	// maxNotices is how many events wait for handlers at most.
	maxNotices = 1024

	// draining is how long Stop waits for the handlers.
	draining = 5 * time.Second
)

// Notices pass events to handlers that may be slow, one after the other.
type Notices struct {
	waiting chan func()
	runs    atomic.Bool
	handle  func(kind string, data map[string]any)
	missed  func()
	full    *outage.Log
	log     *zap.Logger
}

// NewNotices returns Notices that do not run yet. missed counts an event that the
// handlers do not get, because they are too slow.
func NewNotices(handle func(kind string, data map[string]any), missed func(), logger *zap.Logger) *Notices {
	return &Notices{
		waiting: make(chan func(), maxNotices), handle: handle, missed: missed, log: logger,
		full: outage.New(outage.Logger(logger), slog.LevelWarn, "passing an event to the handlers of the app events, which are too slow"),
	}
}

// Add makes the handlers of an event run. It does not wait.
func (n *Notices) Add(kind string, data map[string]any) {
	select {
	case n.waiting <- func() { n.handle(kind, data) }:
		n.full.Worked()
	default:
		n.missed()
		n.full.Failed(slog.String("type", kind))
	}
}

// Run starts to run the handlers, until ctx ends.
func (n *Notices) Run(ctx context.Context) {
	n.runs.Store(true)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case notice := <-n.waiting:
				notice()
			}
		}
	}()
}

// Stop waits until the handlers of the events that wait have run, or for five
// seconds.
func (n *Notices) Stop() {
	if n.runs.Load() && !n.drain() {
		n.log.Warn("stopping before the handlers of the app events have run: they miss the events that wait", zap.Duration("waited", draining))
	}
}

// drain waits until the notices that wait have run, and tells whether they did
// in time.
func (n *Notices) drain() bool {
	timeout, drained := time.After(draining), make(chan struct{})
	for notices := n.waiting; ; {
		select {
		case notices <- func() { close(drained) }:
			notices = nil // sent
		case <-drained:
			return true
		case <-timeout:
			return false
		}
	}
}
