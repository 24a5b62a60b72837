package examples_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// server is one of several servers of a service.
type server struct {
	address       string
	checks, calls atomic.Int64 // that it got
	sick, broken  atomic.Bool  // fails health checks; breaks connections
}

func newServer(t *testing.T) *server {
	s := new(server)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz" && s.sick.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
			s.checks.Add(1)
		case r.URL.Path == "/healthz":
			s.checks.Add(1)
		case s.broken.Load():
			s.calls.Add(1)
			panic(http.ErrAbortHandler)
		default:
			s.calls.Add(1)
		}
	}))
	t.Cleanup(service.Close)
	s.address = service.Listener.Addr().String()
	return s
}

// TestUpstreams runs the example of several servers: one works, one fails its
// health checks, one cannot be reached, and one breaks connections.
func TestUpstreams(t *testing.T) {
	works, sick, breaks := newServer(t), newServer(t), newServer(t)
	sick.sick.Store(true)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	dead := closed.Addr().String()
	site, gate := run(t, "upstreams.Caddyfile", strings.Join([]string{dead, sick.address, breaks.address, works.address}, " "))
	token := newKey(t, gate, "acc_1", "starter")
	key := []string{"Authorization", "Bearer " + token}
	eventually(t, "the first health checks", func() bool { return min(works.checks.Load(), sick.checks.Load(), breaks.checks.Load()) > 0 })

	// Caddy sets the state of a server after its answer.
	orders := int64(0)
	eventually(t, "no call to the server with failed checks", func() bool {
		before := sick.calls.Load()
		for range 8 {
			wantStatus(t, 200, "GET", site+"/v1/orders/7", "", key...)
			orders++
		}
		return sick.calls.Load() == before
	})
	if works.calls.Load() == 0 || breaks.calls.Load() == 0 {
		t.Errorf("the servers got %d and %d calls, want both to get some", works.calls.Load(), breaks.calls.Load())
	}

	// A GET whose connection breaks goes to another server. After two errors
	// the server gets none.
	breaks.broken.Store(true)
	eventually(t, "no call to the server that breaks connections", func() bool {
		before := breaks.calls.Load()
		for range 8 {
			wantStatus(t, 200, "GET", site+"/v1/orders/7", "", key...)
			orders++
		}
		return breaks.calls.Load() == before
	})
	if got := used(t, gate, "acc_1", "order"); got != orders {
		t.Errorf("the account has %d calls, want %d: tries of one call are one", got, orders)
	}

	// The only server that is left breaks the connection: a POST is sent once,
	// and refunded.
	works.broken.Store(true)
	before := works.calls.Load()
	if got := wantStatus(t, 502, "POST", site+"/v1/orders", `{}`, key...); !strings.Contains(got, "message") {
		t.Errorf("got %q, want a refusal of the gate", got)
	}
	if got := works.calls.Load() - before; got != 1 {
		t.Errorf("a POST reached the service %d times, want 1", got)
	}
	if got := used(t, gate, "acc_1", "order-create"); got != 0 {
		t.Errorf("the account has %d calls that no server answered, want 0", got)
	}
	exhaust(t, gate, "acc_1", "order", orders)
	wantStatus(t, 429, "GET", site+"/v1/orders/7", "", key...)
	wantStatus(t, 401, "GET", site+"/v1/orders/7", "")
}
