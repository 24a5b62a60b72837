package event

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestDrain: a configuration that stops waits for its event handlers, at most
// five seconds, and not at all if it was never started.
func TestDrain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		started      bool
		takes, waits time.Duration
		warnings     int
	}{
		"no events":     {started: true},
		"slow handler":  {true, 4 * time.Second, 4 * time.Second, 0},
		"hung handler":  {true, time.Hour, draining, 1},
		"never started": {started: false, takes: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.WarnLevel)
				n := NewNotices(func(string, map[string]any) { time.Sleep(c.takes) }, func() {}, zap.New(core))
				if c.takes > 0 {
					n.Add(KeyCreated, nil)
				}
				if c.started {
					n.Run(t.Context())
				}
				began := time.Now()
				n.Stop()
				if waited := time.Since(began); waited != c.waits || logs.Len() != c.warnings {
					t.Errorf("waited %v with %d warnings, want %v with %d", waited, logs.Len(), c.waits, c.warnings)
				}
				time.Sleep(c.takes) // until no handler runs
			})
		})
	}
}
