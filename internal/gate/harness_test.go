package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/assertion"
	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// handlerFunc is a gate.Handler.
type handlerFunc func(http.ResponseWriter, *http.Request) error

func (f handlerFunc) ServeHTTP(w http.ResponseWriter, r *http.Request) error { return f(w, r) }

// world is a gate with a real store and a clock that the test sets. It is
// also the server: the gate needs no Caddy.
type world struct {
	store gate.Store // what the gate uses
	db    *storetest.Store
	gate  *gate.Gate

	reservations *gate.Reservations

	mu       sync.Mutex
	now      time.Time
	next     handlerFunc
	outcomes map[string]int
	last     *gate.Call

	decisions  int
	identity   string   // of a user whom another handler has authenticated
	planOfUser string   // what its placeholder says
	enrolled   []string // "account user plan"
	refused    []string // "account endpoint code reason"
	ended      []string // "account key"
	requestID  string
	showsID    bool

	limiterFails error
	reached      []store.Quota
}

// noon is later than the machine's clock: stores delete old calls by it.
var noon = time.Date(2126, 11, 20, 12, 0, 0, 0, time.UTC)

func newWorld(t testing.TB, change func(*policy.Config)) *world {
	t.Helper()
	c := policy.Config{
		Guard:  []string{"/api/"},
		Logins: []string{"POST /api/login"},
		Usage:  "GET /api/usage",
		Endpoints: []policy.EndpointConfig{
			{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}},
			{Name: "rates", Patterns: []string{"GET /api/rates/{base}"}},
		},
		Plans: []policy.PlanConfig{
			{Name: "small", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(5)), "rates": new(policy.Limit(5)), "usage": new(policy.Limit(5))}},
			{Name: "other", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(5)), "rates": new(policy.Limit(5)), "usage": new(policy.Limit(5))}},
		},
	}
	if change != nil {
		change(&c)
	}
	db := openStore(t)
	w := &world{store: db, db: db, reservations: gate.NewReservations(), now: noon, outcomes: map[string]int{}, next: func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	}}
	w.configure(t, c)
	return w
}

func openStore(t testing.TB) *storetest.Store {
	t.Helper()
	db, err := badgerstore.Open(t.TempDir(), badgerstore.Options{Reserve: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	opened := storetest.New(db)
	t.Cleanup(func() {
		if err := errors.Join(opened.Close(), db.Close()); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	return opened
}

// secret is the configured secret of the gates in these tests.
const secret = "0123456789abcdef0123456789abcdef"

func newSigner(t testing.TB) *assertion.Signer {
	t.Helper()
	key, err := assertion.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := assertion.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// configure changes the configuration, as a reload does.
func (w *world) configure(t testing.TB, c policy.Config) {
	t.Helper()
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	journal, _ := w.db.Engine.(login.Journal)
	limiter := login.New(login.NewMemory(w.clock, journal))
	w.gate = gate.New(gate.Options{
		Policy: p, Store: func() (gate.Store, error) { return w.store, nil },
		Limiter: func() (*login.Limiter, error) {
			if w.limiterFails != nil {
				return nil, w.limiterFails
			}
			return limiter, nil
		},
		Guesses: login.NewGuesses(), Reservations: w.reservations, Enrol: w.enrol,
		Assertions: newSigner(t), Server: w, Reporter: w, Now: w.clock, Since: func(t time.Time) time.Duration { return w.clock().Sub(t) }, Logger: zap.NewNop(),
	})
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) set(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
}

// failure is an error of a handler with a status.
type failure int

func (f failure) Error() string { return http.StatusText(int(f)) }

func (w *world) Identified(_ *http.Request, call *gate.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = call
}

func (w *world) Ended(_ *http.Request, account, key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, account+" "+key)
}

// RequestID is the same for all requests. Something shows it if w.showsID is
// set.
func (w *world) RequestID(_ *http.Request, shown bool) string {
	if shown && !w.showsID {
		return ""
	}
	return w.requestID
}

// passErrors makes the server write refusals, or the gate.
func passErrors(g *gate.Gate, pass bool) {
	form := policy.ErrorsJSON
	if pass {
		form = policy.ErrorsPass
	}
	g.Policy.Errors = form
	for _, e := range g.Policy.Endpoints {
		e.Errors = form
	}
}

// marks is the key of the mark in the context of a request.
type marks struct{}

// Mark has the address without the port, as that of Caddy.
func (*world) Mark(r *http.Request) *gate.Mark {
	m := markOf(r)
	m.Target, m.Client = r.RequestURI, r.RemoteAddr
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		m.Client = host
	}
	return m
}

func markOf(r *http.Request) *gate.Mark {
	if mark, ok := r.Context().Value(marks{}).(*gate.Mark); ok {
		return mark
	}
	return new(gate.Mark)
}

func (w *world) Identity(*http.Request, string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.identity
}

func (w *world) Placeholder(*http.Request, string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.planOfUser
}

// enrol creates an account, as the control API does.
func (w *world) enrol(ctx context.Context, account, user, plan string) error {
	w.mu.Lock()
	w.enrolled = append(w.enrolled, account+" "+user+" "+plan)
	w.mu.Unlock()
	_, err := storetest.PutAccount(ctx, w.db.Book, store.Account{ID: account, Plan: plan, CreatedAt: noon})
	return err
}

// marked makes a request that can have a mark.
func marked(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), marks{}, new(gate.Mark)))
}

func (*world) Status(err error) int {
	var f failure
	if errors.As(err, &f) {
		return int(f)
	}
	return http.StatusInternalServerError
}

// Proxied tells whether the service has seen a request: w.next is the service.
func (w *world) Proxied(*http.Request) bool { return true }

func (*world) RemoveQuery(*http.Request) {}

func (w *world) Count(endpoint *policy.Endpoint, outcome outcome.Call) {
	name := "none"
	if endpoint != nil {
		name = endpoint.Name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes[name+" "+outcome.String()]++
}

func (w *world) CountLogin(outcome outcome.Login) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.outcomes["login "+outcome.String()]++
}

func (w *world) Decided(time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decisions++
}

// Refused implements gate.Reporter.
func (w *world) Refused(account string, endpoint *policy.Endpoint, code string, reason store.NoGrant) {
	row := account + " "
	if endpoint != nil {
		row += endpoint.Name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = append(w.refused, strings.TrimRight(row+" "+code+" "+string(reason), " "))
}

// Reached implements gate.Reporter.
func (w *world) Reached(quota store.Quota) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached = append(w.reached, quota)
}

var (
	_ gate.Server   = (*world)(nil)
	_ gate.Reporter = (*world)(nil)
)

// account makes an account with a key to everything.
func (w *world) account(t testing.TB, id string) (bearer string) {
	t.Helper()
	if _, err := storetest.PutAccount(t.Context(), w.db.Book, store.Account{ID: id, Plan: "small", CreatedAt: w.clock()}); err != nil {
		t.Fatal(err)
	}
	return w.key(t, store.Key{ID: "key_" + id, Account: id, Name: "ci"})
}

// key makes a key, to everything unless it has abilities.
func (w *world) key(t testing.TB, key store.Key) (bearer string) {
	t.Helper()
	tok := newToken(t)
	key.Kind, key.CreatedAt = token.Key, w.clock()
	if key.Abilities == nil {
		key.Abilities = []string{"batch", "convert", "rates", "usage"}
	}
	if err := w.db.CreateKey(t.Context(), key, tok.Hash()); err != nil {
		t.Fatal(err)
	}
	return tok.Reveal()
}

// override adds overrides to an account.
func (w *world) override(t testing.TB, id string, overrides ...store.Override) {
	t.Helper()
	_, err := w.db.ChangeAccount(t.Context(), id, func(account *store.Account, _ bool) error {
		account.Overrides = append(slices.Clone(account.Overrides), overrides...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// limited makes a world whose plan small has further limits.
func limited(t testing.TB, more ...policy.LimitConfig) *world {
	t.Helper()
	return newWorld(t, func(c *policy.Config) { c.Plans[0].MoreLimits = more })
}

// ask takes a request through the gate; headers are "Name: value".
func (w *world) ask(method, target, body string, headers ...string) (*httptest.ResponseRecorder, error) {
	r := marked(httptest.NewRequest(method, target, strings.NewReader(body)))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	answer := httptest.NewRecorder()
	err := w.gate.Serve(answer, r, w.next)
	return answer, err
}

func (w *world) get(t testing.TB, target, bearer string) *httptest.ResponseRecorder {
	t.Helper()
	answer, err := w.ask("GET", target, "", "Authorization: Bearer "+bearer)
	if err != nil {
		t.Fatalf("GET %s: %v", target, err)
	}
	return answer
}

// used is how many calls are counted on the day of an instant.
func (w *world) used(t testing.TB, account, endpoint string, at time.Time) int64 {
	t.Helper()
	day := w.gate.Policy.Calendar.At(at).Day
	counts, err := w.db.Counts(t.Context(), account, "", day, day)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		if c.Endpoint == endpoint {
			return c.Used
		}
	}
	return 0
}

const convert = "/api/convert/EUR/10/USD"

// rateLimit is the pair of headers as one text.
func rateLimit(answer *httptest.ResponseRecorder) string {
	h := answer.Header()
	return fmt.Sprint(strings.Join(h["Ratelimit-Policy"], "|"), " ", strings.Join(h["Ratelimit"], "|"))
}
