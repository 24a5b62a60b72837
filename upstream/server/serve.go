package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Timeouts of the listener. Its only client should be the gate's proxy,
// so they are generous where the proxy has its own and strict where a
// stranger could hold a connection open.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 60 * time.Second

	// idleTimeout is longer than the two minutes for which Caddy keeps an
	// idle connection: the side that sends requests must be the one that
	// closes, or a request meets a closing connection.
	idleTimeout = 5 * time.Minute

	// shutdownTimeout is how long requests may go on after the end was
	// asked for.
	shutdownTimeout = 15 * time.Second
)

// maxHeaderBytes bounds the header of a request.
const maxHeaderBytes = 64 << 10

// Serve answers requests on the listener until ctx ends, then lets those
// that are under way finish, and closes the listener. It returns nil
// after such an end.
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
