package caddymodule

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/feature/backup"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

var (
	// errNoStoreNow is for a backup while the store is not open.
	errNoStoreNow = unavailable("The store is not open. Try again.")

	// errNotStored is for the time of a backup.
	errNotStored = unavailable("The gate cannot write to its store now. Its log says why.")

	// errNotRead is for a backup that fails before anything of it is sent.
	errNotRead = unavailable("The gate cannot read its store now. Its log says why.")
)

const (
	// backupBuffer is how much of a backup waits to be sent. A backup that
	// fails earlier is answered with a status and a reason.
	backupBuffer = 64 << 10

	// backupPause is how long a client of a backup may read nothing.
	backupPause = 30 * time.Second
)

// serveBackup sends a backup of the store in force. Only the admin endpoint
// has it: it contains the hashes of all tokens, and all accounts. With POST, the
// client says that the backup is complete and in a file.
func serveBackup(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return apierror.MethodNotAllowed("GET, POST").Write(w)
	}
	app := current()
	if app == nil {
		return serveCurrent(w, r) // which refuses it
	}
	opened := app.state.Load()
	if opened == nil {
		return errNoStoreNow.Write(w)
	}
	if r.Method == http.MethodPost {
		if err := opened.book.BackedUp(r.Context(), app.now()); err != nil {
			app.log.Error("storing the time of a backup", zap.Error(err))
			return errNotStored.Write(w)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	app.flushForBackup(r.Context())
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Cache-Control", "no-store")
	sent, release := newBackupSender(w, r, opened)
	buffered := bufio.NewWriterSize(sent, backupBuffer)
	err := backup.Write(sent.ctx, buffered, app.now().UTC().Truncate(time.Millisecond), opened.book)
	if err == nil {
		err = buffered.Flush()
	}
	release()
	if err != nil {
		app.log.Error("writing a backup", zap.Error(err))
		if sent.any {
			// Without the end of the file, the client knows that it failed.
			panic(http.ErrAbortHandler)
		}
		w.Header().Del("Content-Type")
		return errNotRead.Write(w)
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
	if err := a.flushReports(ctx); err != nil {
		a.log.Warn("storing refused calls before a backup", zap.Error(err))
	}
}

// backupSender sends a backup until the client reads nothing for too long, or
// until the store closes: a store waits for its export.
type backupSender struct {
	http.ResponseWriter
	connection *http.ResponseController
	ctx        context.Context
	any        bool // whether anything was sent
}

// newBackupSender returns a sender, and a function that releases it.
func newBackupSender(w http.ResponseWriter, r *http.Request, from *state) (sent *backupSender, release func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	sent = &backupSender{w, http.NewResponseController(w), ctx, false}
	stop := context.AfterFunc(from.closing, func() {
		cancel(store.ErrClosed)
		// It ends a Write that waits for the client. If it fails, the Write
		// ends after backupPause.
		_ = sent.connection.SetWriteDeadline(time.Unix(1, 0))
	})
	return sent, func() {
		stop()
		cancel(nil)
		// The connection can have more requests. If it fails, the connection
		// is broken, and the client notices it.
		_ = sent.connection.SetWriteDeadline(time.Time{})
	}
}

// Write implements io.Writer. It checks whether the store closes after it has
// set the deadline: the end of the store cancels first and sets a deadline then.
func (b *backupSender) Write(p []byte) (n int, err error) {
	if err = b.connection.SetWriteDeadline(time.Now().Add(backupPause)); err == nil {
		err = context.Cause(b.ctx)
	}
	if err == nil {
		b.any = true
		n, err = b.ResponseWriter.Write(p)
	}
	if err != nil {
		return n, fmt.Errorf("sending the backup: %w", err)
	}
	return n, nil
}
