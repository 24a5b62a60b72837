package caddymodule

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/event"
)

// Publish tells others about a change. It returns when the event is stored.
func (a *App) Publish(context.Context, event.Change) {}

// reached tells others about a quota. See gate.Reporter.
func (a *App) reached(context.Context, event.Quota) {}
