package app

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"
)

// pauseAfterPanic is how long background work pauses after a panic.
const pauseAfterPanic = time.Minute

// keepRunning runs background work until it returns. After a panic it logs the
// stack, pauses, and runs the work again: in one process with the gate, a panic
// must not end the gate.
func keepRunning(ctx context.Context, logger *slog.Logger, name string, work func(context.Context)) {
	for !runOnce(ctx, logger, name, work) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pauseAfterPanic):
		}
	}
}

// runOnce reports whether the work returned without a panic.
func runOnce(ctx context.Context, logger *slog.Logger, name string, work func(context.Context)) (returned bool) {
	defer func() {
		if reason := recover(); reason != nil {
			logger.Error("background work panicked", "work", name, "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
		}
	}()
	work(ctx)
	return true
}
