package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
	"github.com/caddy-tollgate/tollgate/internal/outage"
)

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
