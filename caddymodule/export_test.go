package caddymodule

import (
	"context"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
)

func (a *App) Policy() *policy.Policy                 { return a.policy }
func (a *App) Limiter() (*login.Limiter, error)       { return a.limiter() }
func (a *App) FlushReports(ctx context.Context) error { return a.flushReports(ctx) }
func (a *App) Follow()                                { a.store.Load().Events.Follow() }

func Redact(text string, limit int) string { return redact(text, limit) }

// Findings is what caddy tollgate check finds in a file without the accounts.
func Findings(file string) ([]string, error) {
	_, findings, err := checkFile(file, "caddyfile")
	return findings, err
}
