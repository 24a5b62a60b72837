package caddymodule_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	_ "github.com/caddyserver/caddy/v2/modules/metrics"

	"github.com/caddy-tollgate/tollgate/caddymodule"
	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// Caddy's configuration is one for the process: no test that loads one
// runs in parallel with others.

const secret = "0123456789abcdef0123456789abcdef"

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
	client   *http.Client
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

func stop(t testing.TB) {
	t.Helper()
	if err := caddy.Stop(); err != nil {
		t.Errorf("stopping Caddy: %v", err)
	}
}

// newSite returns a site that does not run yet.
func newSite(s setup, dir string) *site {
	n := &site{setup: s, upstream: newUpstream(s.upstream)}
	n.dir = cmp.Or(s.dir, dir)
	n.client = &http.Client{
		Timeout:       time.Minute,
		Transport:     &http.Transport{DialContext: n.dial, DisableCompression: true, MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
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

// inForce returns the app in force, or nil.
func inForce() *caddymodule.App {
	running, err := caddy.ActiveContext().AppIfConfigured("tollgate")
	if err != nil {
		return nil
	}
	return running.(*caddymodule.App)
}

// reload loads the setup as it is now.
func (s *site) reload() error {
	defer s.client.CloseIdleConnections() // they lead to the old one
	return load(s.text(s.upstream.address()))
}

func load(text string) error {
	config, err := adapt(text)
	if err != nil {
		return err
	}
	return caddy.Load(config, true)
}

func adapt(text string) ([]byte, error) {
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// dial connects to where the site listens now.
func (s *site) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		return nil, err
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		for _, listener := range server.Listeners() {
			address := listener.Addr()
			return new(net.Dialer).DialContext(ctx, address.Network(), address.String())
		}
	}
	return nil, fmt.Errorf("the site does not listen")
}

// app is the running app.
func app(t testing.TB) *caddymodule.App {
	t.Helper()
	running := inForce()
	if running == nil {
		t.Fatal("there is no app")
	}
	return running
}

func (s *site) store(t testing.TB) *storetest.Store {
	t.Helper()
	db, err := app(t).Book()
	if err != nil {
		t.Fatalf("opening the store: %v", err)
	}
	return &storetest.Store{Book: db}
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
	db := s.store(t)
	if _, err := storetest.PutAccount(t.Context(), db.Book, store.Account{ID: id, Plan: plan, CreatedAt: time.Now()}); err != nil {
		t.Fatalf("making an account: %v", err)
	}
	return id, s.key(t, store.Key{ID: "key_" + id, Account: id, Name: "ci", Abilities: abilities})
}

func (s *site) key(t testing.TB, key store.Key) (bearer string) {
	t.Helper()
	tok, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key.Kind, key.CreatedAt = token.Key, time.Now()
	if err := s.store(t).CreateKey(t.Context(), key, tok.Hash()); err != nil {
		t.Fatalf("making a key: %v", err)
	}
	return tok.Reveal()
}

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
func (a answered) code() string {
	var refusal struct{ Code string }
	if json.Unmarshal([]byte(a.body), &refusal) != nil {
		return ""
	}
	return refusal.Code
}

// ask sends a request; headers are "Name: value".
func (s *site) ask(t testing.TB, method, target, body string, headers ...string) answered {
	t.Helper()
	got, err := s.try(t.Context(), method, target, body, headers...)
	// A server that stops may close a connection that it has not read from
	// yet, as HTTP allows: no handler saw the request.
	for again := 0; again < 3 && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF)); again++ {
		s.client.CloseIdleConnections()
		got, err = s.try(t.Context(), method, target, body, headers...)
	}
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return got
}

func (s *site) try(ctx context.Context, method, target, body string, headers ...string) (answered, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://gate.test"+target, strings.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	response, err := s.client.Do(r)
	if err != nil {
		return answered{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return answered{response.StatusCode, response.Header, string(text)}, err
}

func (s *site) get(t testing.TB, target, bearer string) answered {
	t.Helper()
	return s.ask(t, "GET", target, "", "Authorization: Bearer "+bearer)
}

// open writes bytes to a connection of its own.
func (s *site) open(t testing.TB, request string) net.Conn {
	t.Helper()
	conn, err := s.dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("writing: %v", err)
	}
	return conn
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

// freePort is a port that a site can listen on across reloads.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := strconv.Atoi(stack.FreePorts(t, 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// calmZone is a zone in which it is around noon, so that no test runs
// over midnight.
func calmZone() string {
	hours := 12 - time.Now().UTC().Hour() // -11 to 12, to be added to UTC
	if hours == 0 {
		return "UTC"
	}
	return fmt.Sprintf("Etc/GMT%+d", -hours) // POSIX counts westwards
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

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("never came: %s", what)
}
