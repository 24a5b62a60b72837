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
