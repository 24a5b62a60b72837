package badgerstore_test

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// now is when a test runs: Badger judges by the clock of the machine what
// has expired.
var now = time.Now().UTC().Truncate(time.Millisecond)

var today = calendar.Day(now.Unix() / 86400)

// child names the environment variable that turns this test binary into a
// process that a test can kill, and says what it does.
const child = "BADGERSTORE_TEST_CHILD"

// TestMain also checks that closed stores leave no goroutines.
func TestMain(m *testing.M) {
	if task := os.Getenv(child); task != "" {
		runChild(task, os.Args[len(os.Args)-1])
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string) badgerstore.TestStore {
	t.Helper()
	return openWith(t, dir, badgerstore.Options{})
}

func openWith(t *testing.T, dir string, o badgerstore.Options) badgerstore.TestStore {
	t.Helper()
	s, err := badgerstore.OpenTest(dir, o)
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) book.Engine { return open(t, t.TempDir()).Store })
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	storetest.RunEmbedded(t, func(t *testing.T) (_ storetest.Embedded, reopen, kill func() storetest.Embedded) {
		dir, small := t.TempDir(), badgerstore.Options{}.WithSegments(smallSegments)
		s := openWith(t, dir, small)
		reopen = func() storetest.Embedded {
			if err := s.Close(); err != nil {
				t.Fatalf("closing the store: %v", err)
			}
			s = openWith(t, dir, small)
			return s.Store
		}
		return s.Store, reopen, func() storetest.Embedded {
			left := t.TempDir()
			copyStore(t, dir, left)
			dir = left
			return reopen()
		}
	})
}
