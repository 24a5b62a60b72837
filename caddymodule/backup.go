package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/backup"
)

// errNoStoreNow is for a backup while the store is not open.
var errNoStoreNow = apierror.New(http.StatusServiceUnavailable, "unavailable", "The store is not open. Try again.").
	WithHeader("Retry-After", "5")

// serveBackup sends a backup of the store in force. Only the admin endpoint
// has it: it contains the hashes of all tokens, and all accounts.
func serveBackup(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return apierror.New(http.StatusMethodNotAllowed, "method_not_allowed", "This method is not allowed here.").
			WithHeader("Allow", http.MethodGet).Write(w)
	}
	app := current()
	if app == nil {
		return serveCurrent(w, r) // which refuses it
	}
	opened, err := app.Store()
	if err != nil {
		return errNoStoreNow.Write(w)
	}
	app.flushForBackup(r.Context())
	sent := &begun{ResponseWriter: w}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Cache-Control", "no-store")
	if err := backup.Write(r.Context(), sent, app.now().UTC().Truncate(time.Millisecond), opened); err != nil {
		app.log.Error("writing a backup", zap.Error(err))
		if sent.any {
			// Without the end of the file, the client knows that it failed.
			panic(http.ErrAbortHandler)
		}
		w.Header().Del("Content-Type")
		return errNoStoreNow.Write(w)
	}
	return nil
}

// flushTimeout bounds how long a backup waits for refused calls.
const flushTimeout = 10 * time.Second

// flushForBackup stores the refused calls that are counted in memory, so that
// the backup has them. A backup without them is better than none.
func (a *App) flushForBackup(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := a.FlushReports(ctx); err != nil {
		a.log.Warn("storing refused calls before a backup", zap.Error(err))
	}
}

// begun is an http.ResponseWriter that knows whether anything was written.
type begun struct {
	http.ResponseWriter
	any bool
}

// Write implements io.Writer.
func (b *begun) Write(p []byte) (int, error) {
	b.any = true
	n, err := b.ResponseWriter.Write(p)
	if err != nil {
		return n, fmt.Errorf("sending the backup: %w", err)
	}
	return n, nil
}
