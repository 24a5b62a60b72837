package event_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/internal/feature/event"
)

// The threat: a receiver sends so much that many posts at once use up the
// memory of the gate.

// TestLargeHeaders: an answer with headers of more than 64 KiB is a failure.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int
		want string
	}{
		"large":     {32 << 10, event.Delivered},
		"too large": {128 << 10, event.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			_, url := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
				w.Header().Set("X-Large", strings.Repeat("x", c.size))
			})
			add(t, db, 1)
			_, outcomes := sender(t, db, webhook(t, url), zap.NewNop())
			eventually(t, "an outcome", func() bool { return outcomes.Get(event.Delivered)+outcomes.Get(event.Failed) > 0 })
			if outcomes.Get(c.want) == 0 {
				t.Errorf("headers of %d bytes: want %s", c.size, c.want)
			}
		})
	}
}

// TestEndlessBody: a body is read only in part.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	db, written := open(t), make(chan int, 1)
	_, url := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		chunk, sent := make([]byte, 64<<10), 0
		for sent < 64<<20 { // the buffers of a connection have less
			n, err := w.Write(chunk)
			if sent += n; err != nil {
				break
			}
		}
		written <- sent
	})
	add(t, db, 1)
	_, outcomes := sender(t, db, webhook(t, url), zap.NewNop())
	eventually(t, "the delivery", func() bool { return outcomes.Get(event.Delivered) == 1 })
	if sent := <-written; sent >= 64<<20 {
		t.Errorf("the sender read %d bytes", sent)
	}
}

// TestLogHasNothingOfTheReceiver: an answer that is no HTTP is not logged. It
// can have personal data, or a token.
func TestLogHasNothingOfTheReceiver(t *testing.T) {
	t.Parallel()
	db := open(t)
	_, url := newReceiver(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nada@example.com s3cret\r\n\r\n"))
		_ = conn.Close()
	})
	add(t, db, 1)
	core, log := observer.New(zap.DebugLevel)
	_, outcomes := sender(t, db, webhook(t, url), zap.New(core))
	eventually(t, "a failure", func() bool { return outcomes.Get(event.Failed) > 0 })
	for _, entry := range log.All() {
		if text := fmt.Sprint(entry.Message, entry.ContextMap()); strings.Contains(text, "ada@") || strings.Contains(text, "s3cret") {
			t.Errorf("the log says %s", text)
		}
	}
	if log.FilterMessage("posting an event").Len() == 0 {
		t.Errorf("the log has %v, want the failure", log.All())
	}
}
