package book_test

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
)

// shared is an engine that gates can share.
type shared struct{ book.Engine }

func (shared) Now() time.Time                  { return time.Now() }
func (shared) Since(t time.Time) time.Duration { return time.Since(t) }

// TestRelease: only the holder of a lease releases it.
func TestRelease(t *testing.T) {
	t.Parallel()
	b := book.New(shared{memstore.New()}, nil)
	for _, step := range []struct {
		lease, release string
		held           bool
	}{
		{"gate 1", "", true}, {"gate 1", "", true}, {"gate 2", "gate 2", false}, {"gate 2", "gate 1", false},
		{"gate 2", "gate 2", true}, {"gate 1", "", true},
	} {
		if held, err := b.Lease(t.Context(), "job", step.lease, time.Minute); held != step.held || err != nil {
			t.Errorf("%s: got %v, %v, want %v", step.lease, held, err, step.held)
		}
		if step.release != "" {
			if err := b.Release(t.Context(), "job", step.release); err != nil {
				t.Errorf("%s: %v", step.release, err)
			}
		}
	}
}
