package caddyupstream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/upstream/app"
	"github.com/caddy-tollgate/tollgate/upstream/portal"
)

// A PostgreSQL server that accepts a connection and says nothing blocks the
// start only for a time: Caddy can neither reload nor stop meanwhile.
func TestSilentDatabase(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // it accepts, because the kernel does
	u := &Upstream{
		config: app.Config{Place: portal.Place{Directory: t.TempDir(), Database: "postgres://u:p@" + silent.Addr().String() + "/x"}},
		logger: slog.New(slog.DiscardHandler),
	}
	if err := u.openWithin(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || u.handler.Load() != nil {
		t.Errorf("got %v, want that the time is over", err)
	}
}
