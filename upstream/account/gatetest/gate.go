// Package gatetest runs the real control API of a gate, over a real store, on
// the loopback interface. Tests can make a request fail before or after the
// gate executes it.
package gatetest

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/event"
	"github.com/caddy-tollgate/tollgate/caddymodule/health"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
)

// Secret opens the control API.
const Secret = "a-secret-of-at-least-32-characters"

// Gate is a running control API with the plans free (no access), starter
// and business.
type Gate struct {
	// Address is host:port of its listener.
	Address string
	// Client asks it.
	Client *client.Client

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

// backend is what the control API is made over.
type backend struct {
	control.Backend // what upstream does not ask for

	policy *policy.Policy
	store  store.Store
	key    *assertion.Key
}

func (b backend) Policy() *policy.Policy              { return b.policy }
func (b backend) Store() (control.Store, error)       { return b.store, nil }
func (b backend) PublicKeys() assertion.KeySet        { return assertion.NewKeySet(b.key) }
func (b backend) Now() time.Time                      { return time.Now() }
func (backend) Publish(context.Context, event.Change) {}
func (backend) FlushReports(context.Context) error    { return nil }
func (b backend) Readiness() api.Readiness {
	return health.Report(b.store.Check(context.Background()), time.Now())
}

// Start runs a gate until the test ends.
func Start(t testing.TB) *Gate {
	t.Helper()
	rules, err := policy.New(policy.Config{
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Pattern: "GET /api/convert/{from}/{amount}/{to}"},
			{Name: "rates", Pattern: "GET /api/rates/{base}"},
		},
		Plans: []policy.PlanConfig{
			{Name: "free"},
			{Name: "starter", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(1000))}},
			{Name: "business", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(100000)), "rates": new(policy.Limit(1000))}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := badgerstore.Open(t.TempDir(), badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	api := control.RequireSecret(control.New(backend{policy: rules, store: kept, key: newKey(t)}, slog.New(slog.DiscardHandler)), Secret)
	g := &Gate{}
	g.server = httptest.NewServer(g.failing(api))
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
