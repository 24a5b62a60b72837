package caddymodule

import (
	"context"
	"slices"

	"github.com/caddy-tollgate/tollgate/internal/feature/check"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func (a *App) Policy() *policy.Policy                 { return a.policy }
func (a *App) Limiter() (*login.Limiter, error)       { return a.limiter() }
func (a *App) FlushReports(ctx context.Context) error { return a.flushReports(ctx) }
func (a *App) Follow()                                { a.state.Load().emitter.Follow() }

// Findings is what caddy tollgate check finds in a file without the accounts.
func Findings(file string) ([]string, error) {
	app, err := readApp(file, "caddyfile")
	if err != nil {
		return nil, err
	}
	compiled, err := app.check(true)
	return slices.Concat(checkRoutes(app.servers, compiled.Guard), check.Doubts(compiled)), err
}
