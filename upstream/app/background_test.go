package app

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Background work that panics runs again after a pause. The end of the context
// ends the pause.
func TestKeepRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		began, runs := time.Now(), 0
		keepRunning(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "counting", func(context.Context) {
			if runs++; runs < 3 {
				panic("unheard of")
			}
		})
		if runs != 3 || time.Since(began) != 2*pauseAfterPanic {
			t.Errorf("got %d runs in %v, want 3 in %v", runs, time.Since(began), 2*pauseAfterPanic)
		}
		if text := log.String(); strings.Count(text, "background work panicked") != 2 || !strings.Contains(text, "work=counting") ||
			!strings.Contains(text, "unheard of") || !strings.Contains(text, "background_test.go") {
			t.Errorf("got log %s, want two lines with name, reason and stack", text)
		}
		ctx, stop := context.WithCancel(t.Context())
		began = time.Now()
		keepRunning(ctx, slog.New(slog.DiscardHandler), "stopping", func(context.Context) {
			stop()
			panic("at the end")
		})
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %v after the end of the context", waited)
		}
	})
}
