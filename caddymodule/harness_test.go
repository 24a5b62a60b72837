package caddymodule_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/caddytest"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// Caddy's configuration is one for the process: no test that loads one
// runs in parallel with others.

const secret = caddytest.Secret

// Names of the harness that all tests use.
var (
	adapt, load = caddytest.Adapt, caddytest.Load
	stop        = caddytest.Stop
	inForce     = caddytest.InForce
	app         = caddytest.App
	freePort    = caddytest.FreePort
	eventually  = caddytest.Eventually
	calmZone    = stack.CalmZone
)

// setup is a configuration by its parts; empty ones have a default.
type setup struct {
	dir      string // of the store
	port     int    // of the site; 0 takes another one at each load
	global   string // options beside tollgate
	zone     string
	gate     string // options instead of the usual plans and endpoints
	more     string // options beside them
	before   string // directives in front of the gate
	behind   string // instead of a reverse_proxy to the UPSTREAM
	upstream http.HandlerFunc
}

// usual are options that most tests are about.
const usual = `
		guard /api/
		login POST /api/login
		login POST /login
		usage GET /api/usage
		endpoint convert GET /api/convert/{from}/{amount}/{to}
		endpoint rates   GET /api/rates/{base}
		endpoint batch   POST /api/convert/batch {
			ability convert
		}
		plan free
		plan small {
			convert 5
			rates   5
			usage   5
		}
		plan starter {
			convert 1000
			batch   1000
			usage   1000
		}
		plan business {
			convert unlimited
			rates   unlimited
			batch   unlimited
			usage   unlimited
		}
`

// text is the Caddyfile of a setup in front of an upstream.
func (s setup) text(upstream string) string {
	return fmt.Sprintf(`{
	admin off
	auto_https off
	persist_config off
	grace_period 5s
	%s
	tollgate {
		store badger %s
		secret %s
		timezone %s
		%s
		%s
	}
}
http://:%d {
	bind 127.0.0.1
	%s
	tollgate
	%s
}
`, s.global, s.dir, secret, cmp.Or(s.zone, "UTC"), cmp.Or(s.gate, usual), s.more, s.port, s.before, strings.ReplaceAll(cmp.Or(s.behind, "reverse_proxy UPSTREAM"), "UPSTREAM", upstream))
}

// site is a running Caddy with the gate in front of an upstream.
type site struct {
	setup
	upstream *upstream
	client   *caddytest.Client
	accounts int // that were made
	since    int // how many of them are of tests before
}

// shared is the site of all tests with the usual setup. It runs until a test
// needs another configuration.
var shared struct {
	*site
	app *caddymodule.App
}

func TestMain(m *testing.M) {
	status := m.Run()
	if err := caddy.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping Caddy:", err)
		status = 1
	}
	leaveShared()
	os.Exit(status)
}

// leaveShared deletes what the shared site has left.
func leaveShared() {
	if shared.site != nil {
		shared.upstream.server.Close()
		os.RemoveAll(filepath.Dir(shared.dir))
		shared.site = nil
	}
}

// start runs a setup until the test ends. The usual setup goes on for the next
// test, unless the test changes it.
func start(t testing.TB, s setup) *site {
	t.Helper()
	if reflect.DeepEqual(s, setup{}) || reflect.DeepEqual(s, setup{zone: calmZone()}) {
		return startShared(t)
	}
	running := newSite(s, filepath.Join(t.TempDir(), "gate"))
	t.Cleanup(func() {
		stop(t)
		running.client.CloseIdleConnections()
		running.upstream.server.Close()
	})
	if err := running.reload(); err != nil {
		t.Fatalf("starting Caddy: %v", err)
	}
	return running
}

// newSite returns a site that does not run yet.
func newSite(s setup, dir string) *site {
	n := &site{setup: s, upstream: newUpstream(s.upstream), client: caddytest.NewClient()}
	n.dir = cmp.Or(s.dir, dir)
	return n
}

// startShared returns a copy of the shared site, with an upstream that has seen
// nothing.
func startShared(t testing.TB) *site {
	t.Helper()
	if shared.site == nil || shared.app != inForce() {
		leaveShared()
		dir, err := os.MkdirTemp("", "gate")
		if err != nil {
			t.Fatal(err)
		}
		shared.site = newSite(setup{zone: calmZone()}, filepath.Join(dir, "gate"))
		if err := shared.reload(); err != nil {
			t.Fatalf("starting Caddy: %v", err)
		}
		shared.app = inForce()
	}
	shared.upstream.reset()
	running := *shared.site
	running.since = running.accounts
	t.Cleanup(func() {
		running.client.CloseIdleConnections()
		if shared.app != inForce() {
			stop(t)
		}
		shared.accounts = running.accounts
	})
	return &running
}

// reload loads the setup as it is now.
func (s *site) reload() error {
	return s.client.Load(s.text(s.upstream.address()))
}

// account makes an account of its own on a plan, and a key to it with
// these abilities, or all there are.
func (s *site) account(t testing.TB, plan string, abilities ...string) (id, bearer string) {
	t.Helper()
	s.accounts++
	id = fmt.Sprintf("acc_%d", s.accounts)
	if len(abilities) == 0 {
		abilities = []string{"convert", "rates", "usage"}
	}
	return id, caddytest.Account(t, id, plan, abilities...)
}

func (*site) store(t testing.TB) *storetest.Store { return caddytest.Store(t) }

func (*site) key(t testing.TB, key store.Key) (bearer string) { return caddytest.Key(t, key) }

// used is how many calls of an account were counted today.
func (s *site) used(t testing.TB, account, endpoint string) int64 {
	t.Helper()
	a := app(t)
	day := a.Policy().Calendar.At(time.Now()).Day
	counts, err := s.store(t).Counts(t.Context(), account, "", day, day)
	if err != nil {
		t.Fatalf("reading counts: %v", err)
	}
	used := int64(0)
	for _, c := range counts {
		if a.Policy().Names.Endpoints.Today(c.Endpoint) == endpoint {
			used += c.Used
		}
	}
	return used
}

func (*site) open(t testing.TB, request string) net.Conn { return caddytest.Open(t, request) }

// answered is a response that was read to its end.
type answered struct {
	status int
	header http.Header
	body   string
}

// requestID finds the id of a request in the JSON of a refusal.
var requestID = regexp.MustCompile(`,"request_id":"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"}$`)

// same is the JSON of a refusal without the id of its request, which is another
// one for each request.
func (a answered) same() string { return requestID.ReplaceAllString(a.body, "}") }

// code is the stable word of a refusal.
func (a answered) code() string { return caddytest.Code(a.body) }

// ask sends a request; headers are "Name: value".
func (s *site) ask(t testing.TB, method, target, body string, headers ...string) answered {
	t.Helper()
	got := s.client.Ask(t, method, target, body, headers...)
	return answered{got.Status, got.Header, got.Body}
}

func (s *site) try(ctx context.Context, method, target, body string, headers ...string) (answered, error) {
	got, err := s.client.Try(ctx, method, target, body, headers...)
	return answered{got.Status, got.Header, got.Body}, err
}

func (s *site) get(t testing.TB, target, bearer string) answered {
	t.Helper()
	return s.ask(t, "GET", target, "", "Authorization: Bearer "+bearer)
}

// raw writes bytes to the site and returns what comes back before the
// site closes the connection. It is for what no client library sends.
func (s *site) raw(t testing.TB, request string) string {
	t.Helper()
	conn := s.open(t, request)
	defer conn.Close()
	// What was read before an error is what the test is about.
	got, _ := io.ReadAll(conn)
	return string(got)
}

// verifier checks the gate's assertions for a host.
func verifier(t testing.TB, host string) *assertion.Verifier {
	t.Helper()
	key, err := assertion.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return assertion.NewVerifier(func(h string) bool { return h == host }, time.Now, key)
}

// compiled is the policy of the running app.
func compiled(t testing.TB) *policy.Policy { return app(t).Policy() }
