package badgerstore_test

import (
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
)

// now is when a test runs: Badger judges by the clock of the machine what
// has expired.
var now = time.Now().UTC().Truncate(time.Millisecond)

var today = calendar.Day(now.Unix() / 86400)

func open(t *testing.T, dir string) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.Open(dir, badgerstore.Options{})
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
