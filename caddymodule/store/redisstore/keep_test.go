package redisstore

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// TestNewConnections: calls go on while new connections are checked, also if
// a connection opens while the background looks at the server.
func TestNewConnections(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, err := Open(Options{URL: server.URL(), Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) // it only waits for recent calls
	awaitStore(t, s)
	var calls sync.WaitGroup
	defer calls.Wait()
	began := time.Now()
	calls.Go(func() {
		for time.Since(began) < 2*time.Second {
			s.client.dialed(server.Addr())
			time.Sleep(rand.N(200 * time.Microsecond))
		}
	})
	for n := 0; time.Since(began) < 2*time.Second; n++ {
		if err := s.Check(t.Context()); err != nil {
			t.Fatalf("after %d calls: %v", n, err)
		}
	}
}
