// Package gatetest runs the real control API of a gate, over a real store, on
// the loopback interface. Tests can make a request fail before or after the
// gate executes it.
package gatetest

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// Secret opens the control API.
const Secret = controltest.Secret

// Gate is a running control API with the plans free (no access), starter
// and business.
type Gate struct {
	// Address is host:port of its listener.
	Address string
	// Client asks it.
	Client *client.Client
	// Control has its store and its clock.
	Control *controltest.Gate

	server *httptest.Server
	fault  atomic.Pointer[Fault]
}

// Fault makes the gate fail.
type Fault struct {
	// Hits reports whether a request fails. It is called once for each.
	Hits func(r *http.Request) bool
	// Late makes the gate execute the request before it fails, as if the
	// answer were lost.
	Late bool
	// Hook, if set, is called before the request, which does not fail then.
	Hook func()
	// Refusal, if set, is what the gate answers instead of failing.
	Refusal *apierror.Error
}

// Start runs a gate until the test ends.
func Start(t testing.TB) *Gate {
	t.Helper()
	opened := controltest.New(t)
	opened.SetClock(time.Now)
	opened.SetPlans(t, api.Plans{
		Endpoints: []api.Endpoint{
			{Name: "convert", Method: "GET", Path: "/api/convert/{from}/{amount}/{to}", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "rates", Method: "GET", Path: "/api/rates/{base}", Patterns: []string{"GET /api/rates/{base}"}},
		},
		Plans: []api.Plan{
			{Name: "free"},
			{Name: "starter", Limits: map[string]*int64{"convert": new(int64(1000))}},
			{Name: "business", Limits: map[string]*int64{"convert": new(int64(100000)), "rates": new(int64(1000))}},
		},
	})
	g := &Gate{Control: opened}
	// A port of the test: after Stop, no other server gets it.
	listener, err := net.Listen("tcp", "127.0.0.1:"+stack.FreePorts(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	g.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: g.failing(opened.Handler())}}
	g.server.Start()
	t.Cleanup(g.server.Close)
	g.Address = strings.TrimPrefix(g.server.URL, "http://")
	g.Client = g.WithSecret(t, Secret)
	return g
}

// WithSecret returns a client with another secret.
func (g *Gate) WithSecret(t testing.TB, secret string) *client.Client {
	t.Helper()
	c, err := client.New(g.server.URL, secret)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Stop closes the listener of the gate.
func (g *Gate) Stop() { g.server.Close() }

// Fail makes the gate fail from now on, or no longer when the fault is
// nil.
func (g *Gate) Fail(fault *Fault) { g.fault.Store(fault) }

// Requests returns a condition for a Fault: the method and the suffix of the
// path.
func Requests(method, suffix string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && strings.HasSuffix(r.URL.Path, suffix)
	}
}

func (g *Gate) failing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := g.fault.Load()
		if fault == nil || !fault.Hits(r) {
			next.ServeHTTP(w, r)
			return
		}
		if fault.Hook != nil {
			fault.Hook()
			next.ServeHTTP(w, r)
			return
		}
		if fault.Refusal != nil {
			// The client is gone if this fails; ignore the error.
			_ = fault.Refusal.Write(w)
			return
		}
		if fault.Late {
			next.ServeHTTP(httptest.NewRecorder(), r)
		}
		// Cuts the connection without an answer.
		panic(http.ErrAbortHandler)
	})
}
