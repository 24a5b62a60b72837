// Package controltest runs a gate's control API in a test: over a store in
// memory, with the plans of an ordinary configuration and a clock that the
// test moves. It is for programs that use
// the API, too: its Plans are those of package api.
package controltest

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin"
	"github.com/caddy-tollgate/tollgate/internal/admin/health"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/feature/event"
	"github.com/caddy-tollgate/tollgate/internal/feature/portal"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
	"github.com/caddy-tollgate/tollgate/internal/store/memstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/usage"
)

// Secret opens the control API of every Gate.
const Secret = "a-secret-of-at-least-32-characters"

// Start is when the clock of every Gate begins: in the morning of
// 2126-11-20 in Berlin. A store forgets what is over by the clock of the
// machine, so a test's time must be ahead of that.
var Start = time.Date(2126, 11, 20, 9, 0, 0, 0, time.UTC)

// Gate is a feature.Gate. It is safe for concurrent use.
type Gate struct {
	opened  *storetest.Store
	emitter *event.Emitter
	key     *assertion.Key
	signer  *assertion.Signer

	mu        sync.Mutex
	policy    *policy.Policy
	clock     func() time.Time
	ahead     time.Duration
	down      error
	log       bytes.Buffer
	published []Event
}

// Event is what Caddy's event system gets of an event.
type Event struct {
	Type string
	Data map[string]any
}

// New returns a Gate with an empty store.
func New(t testing.TB) *Gate {
	t.Helper()
	return Over(t, memstore.New())
}

// Over returns a Gate on an engine, until the test ends.
func Over(t testing.TB, engine book.Engine) *Gate {
	t.Helper()
	key, err := assertion.NewKey(Secret)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := assertion.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	g := &Gate{key: key, signer: signer, clock: func() time.Time { return Start }}
	g.opened = storetest.New(clocked{engine, g})
	g.Configure(t, Config())
	g.emitter = event.NewEmitter(event.EmitterOptions{
		Queue: event.NewQueue(g.opened.Book), Webhook: func() *event.Webhook { return new(event.Webhook) }, Count: func(string, int) {}, Logger: zap.NewNop(),
		Emit: func(kind string, data map[string]any) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.published = append(g.published, Event{kind, data})
		},
	})
	t.Cleanup(func() {
		g.emitter.Close()
		if err := g.opened.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return g
}

// clocked is an engine with the clock of a Gate.
type clocked struct {
	book.Engine
	gate *Gate
}

// Now returns the time on the clock.
func (c clocked) Now() time.Time { return c.gate.Now() }

// Since returns the time since an instant.
func (c clocked) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Lock opens the Badger store in a directory until unlock is called, so that no
// gate can open it.
func Lock(t testing.TB, dir string) (unlock func()) {
	t.Helper()
	badger, err := badgerstore.Open(dir, badgerstore.Options{})
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	return func() {
		t.Helper()
		if err := badger.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	}
}

// Config is the configuration that a Gate starts with.
func Config() policy.Config {
	return policy.Config{
		Timezone: "Europe/Berlin",
		Guard:    []string{"/api/"},
		Usage:    "GET /api/usage",
		Endpoints: []policy.EndpointConfig{
			{Name: "currencies", Patterns: []string{"GET /api/currencies"}},
			{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "batch", Patterns: []string{"POST /api/convert/batch"}, Ability: "convert"},
		},
		Plans: []policy.PlanConfig{
			{Name: "free"},
			{Name: "starter", Limits: Limits(map[string]int64{"currencies": 100, "convert": 1000, "batch": 50, "usage": 1000})},
			{Name: "business", Limits: Limits(map[string]int64{"currencies": store.Unlimited, "convert": 100000})},
		},
	}
}

// Limits returns limits of a day as a PlanConfig has them.
func Limits(calls map[string]int64) map[string]*policy.Limit {
	limits := map[string]*policy.Limit{}
	for endpoint, n := range calls {
		limits[endpoint] = new(policy.Limit(n))
	}
	return limits
}

// Configure puts a configuration in force, as a reload does.
func (g *Gate) Configure(t testing.TB, config policy.Config) {
	t.Helper()
	compiled, err := policy.New(config)
	if err != nil {
		t.Fatalf("compiling the configuration: %v", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policy = compiled
}

// SetPlans puts these plans and endpoints in force.
func (g *Gate) SetPlans(t testing.TB, plans api.Plans) {
	t.Helper()
	config := policy.Config{Timezone: plans.Timezone}
	for _, e := range plans.Endpoints {
		config.Endpoints = append(config.Endpoints, policy.EndpointConfig{Name: e.Name, Patterns: e.Patterns, Ability: e.Ability, Cost: e.Cost})
	}
	for _, p := range plans.Plans {
		plan := policy.PlanConfig{Name: p.Name, Limits: map[string]*policy.Limit{}}
		for endpoint, calls := range p.Limits {
			plan.Limits[endpoint] = new(policy.Limit(store.Unlimited))
			if calls != nil {
				plan.Limits[endpoint] = new(policy.Limit(*calls))
			}
		}
		for _, limit := range p.MoreLimits {
			plan.MoreLimits = append(plan.MoreLimits, policy.LimitConfig{Endpoint: limit.Endpoint, Period: limit.Period, Limit: policy.Limit(limit.Limit)})
		}
		config.Plans = append(config.Plans, plan)
	}
	g.Configure(t, config)
}

// SetClock replaces the clock, for example by time.Now.
func (g *Gate) SetClock(clock func() time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.clock, g.ahead = clock, 0
}

// Advance moves the clock.
func (g *Gate) Advance(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ahead += d
}

// Break makes the store unreachable for that reason; nil mends it.
func (g *Gate) Break(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = reason
}

// Log returns what was logged.
func (g *Gate) Log() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.String()
}

// Write adds to the log.
func (g *Gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.Write(p)
}

// Policy returns the configuration in force.
func (g *Gate) Policy() *policy.Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.policy
}

// PublicKeys returns the public key of Secret.
func (g *Gate) PublicKeys() assertion.KeySet { return assertion.NewKeySet(g.key) }

// Site is the site of portal links.
var Site = url.URL{Scheme: "http", Host: "localhost:8080"}

// Portal makes a link to Site.
func (g *Gate) Portal(account string, now time.Time) (api.Portal, error) {
	return portal.Link(g.signer, &Site, account, now)
}

// Watched returns true: the events wait for a webhook, and there is a unit for
// backups.
func (*Gate) Watched() (webhook, backup bool) { return true, true }

// IntrospectionSecret opens introspection. It is Secret.
func (*Gate) IntrospectionSecret() string { return Secret }

// TakeSecret opens taking of calls. It is Secret.
func (*Gate) TakeSecret() string { return Secret }

// Opened returns the store, whether or not Break was called.
func (g *Gate) Opened() *storetest.Store { return g.opened }

// Book returns the store, or the reason that Break was called with.
func (g *Gate) Book() (*book.Book, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down != nil {
		return nil, g.down
	}
	return g.opened.Renamed(g.policy.Names).WithClock(g.Now), nil
}

// Now returns the time on the clock.
func (g *Gate) Now() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.clock().Add(g.ahead)
}

// Usage returns what the gate answers to a call of the usage endpoint with a
// key.
func (g *Gate) Usage(t testing.TB, account, plan string, key *store.Key, days int) api.UsageDocument {
	t.Helper()
	p := g.Policy()
	document, err := usage.Build(t.Context(), p, g.opened.Renamed(p.Names), usage.Query{Account: account, Plan: plan, Key: key, Now: g.Now(), Days: days})
	if err != nil {
		t.Fatal(err)
	}
	return document
}

// Readiness tells what the store says, since Start.
func (g *Gate) Readiness() api.Readiness {
	_, err := g.Book()
	if err == nil {
		err = g.opened.Check(context.Background())
	}
	return health.Report(err, Start)
}

// Follow makes the events of the changes.
func (g *Gate) Follow() { g.emitter.Follow() }

// Published returns the events, oldest first.
func (g *Gate) Published() []Event {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.published)
}

// FlushReports does nothing: a Gate counts no refused calls.
func (*Gate) FlushReports(context.Context) error { return nil }

// Options are those of a gate over the store that explains.
func (g *Gate) Options() gate.Options {
	p := g.Policy()
	return gate.Options{
		Reservations: gate.NewReservations(), Policy: p, Now: g.Now, Since: time.Since,
		Store: func() (gate.Store, error) {
			b, err := g.Book()
			return b, err
		},
		Server: quiet{}, Reporter: quiet{}, Guesses: login.NewGuesses(), Logger: zap.NewNop(),
	}
}

// quiet counts and reports nothing.
type quiet struct{ gate.Server }

func (quiet) Count(*policy.Endpoint, outcome.Call)                            {}
func (quiet) Decided(time.Duration)                                           {}
func (quiet) Refused(_ string, _ *policy.Endpoint, _ string, _ store.NoGrant) {}
func (quiet) Reached(store.Quota)                                             {}

// InProcess returns the control API, which needs no secret.
func (g *Gate) InProcess() http.Handler {
	return feature.Handler(g, slog.New(slog.NewTextHandler(g, nil)))
}

// Handler returns the control API, behind Secret.
func (g *Gate) Handler() http.Handler { return admin.RequireSecret(g.InProcess(), Secret) }

// Serve listens on the loopback interface until the test ends, and
// returns the base URL.
func (g *Gate) Serve(t testing.TB) string {
	t.Helper()
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	return server.URL
}

var _ feature.Gate = (*Gate)(nil)
