package caddymodule

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
				e := &events{notices: make(chan func(), 1), log: zap.New(core)}
				if c.takes > 0 {
					e.notices <- func() { time.Sleep(c.takes) }
				}
				if e.runs.Store(c.started); c.started {
					go e.run(t.Context())
				}
				began := time.Now()
				e.stop()
				if waited := time.Since(began); waited != c.waits || logs.Len() != c.warnings {
					t.Errorf("waited %v with %d warnings, want %v with %d", waited, logs.Len(), c.waits, c.warnings)
				}
				time.Sleep(c.takes) // until no handler runs
			})
		})
	}
}
