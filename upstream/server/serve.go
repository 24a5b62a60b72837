package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

// Timeouts of the listener. Its only client should be the gate's proxy. They
// are long where the proxy has its own timeout, and short where a stranger
// could keep a connection open.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second

	// idleTimeout is longer than the two minutes that Caddy keeps an idle
	// connection. The client must close first: a request on a connection
	// that the server closes is lost.
	idleTimeout = 5 * time.Minute

	// shutdownTimeout is how long in-flight requests may take at shutdown.
	shutdownTimeout = 15 * time.Second
)

// maxHeaderBytes is the maximum size of a request header.
const maxHeaderBytes = 64 << 10

// Serve answers requests on the listener until ctx ends. It then closes the
// listener, waits for in-flight requests and returns nil.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, logger *slog.Logger) error {
	s := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := s.Shutdown(grace); err != nil {
		return errors.Join(fmt.Errorf("shutting down: %w", err), s.Close())
	}
	return nil
}

var internal = apierror.New(http.StatusInternalServerError, "internal",
	"Something went wrong on our side.")

// recoverer answers 500 when a handler panics, and logs the stack. If the
// answer has begun, it closes the connection: the client must not mistake a
// partial answer for a complete one.
func recoverer(logger *slog.Logger, next http.Handler) http.Handler {
	panics := outage.New(logger, slog.LevelError, "handler panicked")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		watched := &watcher{ResponseWriter: w}
		defer func() {
			reason := recover()
			if reason == nil {
				return
			}
			if reason == http.ErrAbortHandler { // net/http compares it the same way
				panic(reason)
			}
			panics.Failed(slog.String("reason", fmt.Sprint(reason)), slog.String("stack", string(debug.Stack())))
			if watched.began {
				panic(http.ErrAbortHandler)
			}
			clear(w.Header())
			send(w, internal)
		}()
		next.ServeHTTP(watched, r)
	})
}

// watcher records whether the answer has begun.
type watcher struct {
	http.ResponseWriter
	began bool
}

// Unwrap lets http.ResponseController reach the writer underneath.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer, unless the status is informational.
func (w *watcher) WriteHeader(status int) {
	w.began = w.began || status >= http.StatusOK
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (w *watcher) Write(b []byte) (int, error) {
	w.began = true
	return w.ResponseWriter.Write(b)
}
