package caddymodule

import (
	"context"

	"github.com/caddy-tollgate/tollgate/caddymodule/internal/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
)

func (a *App) Policy() *policy.Policy                 { return a.policy }
func (a *App) Limiter() (*login.Limiter, error)       { return a.limiter() }
func (a *App) FlushReports(ctx context.Context) error { return a.flushReports(ctx) }
func (a *App) Follow()                                { a.state.Load().emitter.Follow() }
