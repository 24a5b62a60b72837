package backup

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// Source is what a gate makes a backup of.
type Source struct {
	Book *book.Book
	Now  func() time.Time
	// Flush writes what waits in memory to the store.
	Flush func(context.Context) error
	// Closing ends before the store is closed: a store waits for its export.
	Closing context.Context
	Log     *zap.Logger
}

var (
	// errNotStored is for the time of a backup.
	errNotStored = apierror.Unavailable("The gate cannot write to its store now. Its log says why.")

	// errNotRead is for a backup that fails before anything of it is sent.
	errNotRead = apierror.Unavailable("The gate cannot read its store now. Its log says why.")
)

const (
	// sendBuffer is how much of a backup waits to be sent. A backup that
	// fails earlier is answered with a status and a reason.
	sendBuffer = 64 << 10

	// sendPause is how long a client of a backup may read nothing.
	sendPause = 30 * time.Second

	// flushTimeout bounds how long a backup waits for refused calls.
	flushTimeout = 10 * time.Second
)

// Serve sends a backup. Only the admin endpoint has it: it contains the hashes
// of all tokens, and all accounts. With POST, the client says that the backup is
// complete and in a file. find returns the store in force, or a refusal.
func Serve(w http.ResponseWriter, r *http.Request, find func() (Source, *apierror.Error)) error {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return apierror.MethodNotAllowed("GET, POST").Write(w)
	}
	from, refused := find()
	switch {
	case refused != nil:
		apierror.CloseUnread(w, r)
		return refused.Write(w)
	case r.Method == http.MethodPost:
		return from.note(w, r)
	}
	from.flush(r.Context())
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Cache-Control", "no-store")
	sent, release := newSender(w, r, from.Closing)
	buffered := bufio.NewWriterSize(sent, sendBuffer)
	err := Write(sent.ctx, buffered, from.Now().UTC().Truncate(time.Millisecond), from.Book)
	if err == nil {
		err = buffered.Flush()
	}
	release()
	if err != nil {
		from.Log.Error("writing a backup", zap.Error(err))
		if sent.any {
			// Without the end of the file, the client knows that it failed.
			panic(http.ErrAbortHandler)
		}
		w.Header().Del("Content-Type")
		return errNotRead.Write(w)
	}
	return nil
}

// note stores when a backup succeeded.
func (s *Source) note(w http.ResponseWriter, r *http.Request) error {
	if err := s.Book.BackedUp(r.Context(), s.Now()); err != nil {
		s.Log.Error("storing the time of a backup", zap.Error(err))
		return errNotStored.Write(w)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// flush stores the refused calls that are counted in memory, so that the backup
// has them. A backup without them is better than none.
func (s *Source) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := s.Flush(ctx); err != nil {
		s.Log.Warn("storing refused calls before a backup", zap.Error(err))
	}
}

// sender sends a backup until the client reads nothing for too long, or until
// the store closes.
type sender struct {
	http.ResponseWriter
	connection *http.ResponseController
	ctx        context.Context
	any        bool // whether anything was sent
}

// newSender returns a sender, and a function that releases it.
func newSender(w http.ResponseWriter, r *http.Request, closing context.Context) (sent *sender, release func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	sent = &sender{w, http.NewResponseController(w), ctx, false}
	stop := context.AfterFunc(closing, func() {
		cancel(store.ErrClosed)
		// It ends a Write that waits for the client. If it fails, the Write
		// ends after sendPause.
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
func (b *sender) Write(p []byte) (n int, err error) {
	if err = b.connection.SetWriteDeadline(time.Now().Add(sendPause)); err == nil {
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
