package caddymodule

import (
	"context"

	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/pool"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

func (a *App) Policy() *policy.Policy                 { return a.policy }
func (a *App) Limiter() (*login.Limiter, error)       { return a.limiter() }
func (a *App) FlushReports(ctx context.Context) error { return a.flushReports(ctx) }
func (a *App) Follow()                                { a.store.Load().Events.Follow() }

// Attach is attach.
func Attach(of *book.Book) pool.Attached { return attach(of) }

func Redact(text string, limit int) string { return redact(text, limit) }

// Findings is what caddy tollgate check finds in a file without the accounts.
func Findings(file string) ([]string, error) {
	_, findings, err := checkFile(file, "caddyfile")
	return findings, err
}
