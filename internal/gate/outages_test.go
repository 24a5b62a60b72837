package gate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
)

// patient is a gate over parts that fail while they are told to.
type patient struct {
	memory
	gate   *gate.Gate
	bearer string
	log    *observer.ObservedLogs
	asked  atomic.Int64

	broken map[string]bool // the parts that fail

	givingBack func(context.Context)       // nil: not watched
	taking     func(context.Context) error // nil: nothing fails
}

var errFull = errors.New("disk is full")

func (p *patient) fault(part string) error {
	if p.broken[part] {
		return errFull
	}
	return nil
}

func (p *patient) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	if err := p.fault("take"); err != nil {
		return false, err
	}
	if p.taking != nil {
		if err := p.taking(ctx); err != nil {
			return false, err
		}
	}
	return p.memory.Take(ctx, call, limits, rooms)
}

func (p *patient) Settle(ctx context.Context, _ store.Call, _ []store.Limit, _ []store.Room, _ int64, _ bool) error {
	if p.givingBack != nil {
		p.givingBack(ctx)
	}
	return p.fault("refund")
}

// Save and LoadAttempts are those of login.Journal.
func (p *patient) Save(context.Context, []login.Row) error { return p.fault("journal") }

func (*patient) LoadAttempts(context.Context, func(key, value []byte) error) error { return nil }

// ServeHTTP is the upstream.
func (p *patient) ServeHTTP(w http.ResponseWriter, _ *http.Request) error {
	if p.broken["upstream"] {
		return errors.New("connection refused")
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	l := ledger.New(nil)
	tok := newToken(t)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert"})
	p := &patient{memory: memory{ledger: l}, broken: map[string]bool{}, bearer: "Bearer " + tok.Reveal()}
	core, log := observer.New(zapcore.InfoLevel)
	p.log = log
	limits := policy.LoginThrottle{PerClient: 1000, Window: policy.Duration(time.Second), FreeFailures: 256}
	compiled, err := policy.New(policy.Config{
		Guard: []string{"/api/"}, Logins: []string{"POST /api/login"}, LoginThrottle: limits,
		Endpoints: []policy.EndpointConfig{{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}}},
		Plans:     []policy.PlanConfig{{Name: "starter", Limits: map[string]*policy.Limit{"convert": new(ample)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	limiter := login.New(login.NewMemory(time.Now, p))
	p.gate = gate.New(gate.Options{
		Policy: compiled, Assertions: newSigner(t), Server: plain{}, Reporter: plain{}, Now: time.Now, Since: time.Since, Logger: zap.New(core),
		Store:   func() (gate.Store, error) { return p, p.fault("store") },
		Limiter: func() (*login.Limiter, error) { return limiter, nil },
	})
	return p
}

// ask makes a call, and logIn attempts to log in.
func (p *patient) ask()   { p.send(convert, p) }
func (p *patient) logIn() { p.send("/api/login", p) }

func (p *patient) send(target string, next gate.Handler) {
	r := httptest.NewRequest("GET", target, nil)
	if target == "/api/login" {
		r = httptest.NewRequest("POST", target, strings.NewReader(`{"email":"a@b"}`))
	}
	r.Header = http.Header{"Authorization": {p.bearer}, "Content-Type": {"application/json"}}
	r.RemoteAddr = fmt.Sprintf("192.0.2.%d", p.asked.Add(1)%100)
	// An error is for the server to answer.
	_ = p.gate.Serve(httptest.NewRecorder(), r, next)
}

// lines returns what was logged since the last call.
func (p *patient) lines() string {
	var b strings.Builder
	for _, entry := range p.log.TakeAll() {
		fields := entry.ContextMap()
		fmt.Fprintf(&b, "%s %s", entry.Level, entry.Message)
		for _, name := range []string{"endpoint", "account", "key", "status", "error", "failures"} {
			if value, there := fields[name]; there {
				fmt.Fprintf(&b, " %s=%v", name, value)
			}
		}
		if entry.Stack != "" {
			b.WriteString(" with a stack")
		}
		b.WriteString("\n")
	}
	return strings.TrimSpace(b.String())
}

// TestManyFailuresInFiveSeconds: for each kind of failure the log has
// a line at the beginning, one a minute with the number, and one at the end.
func TestManyFailuresInFiveSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		pass      bool // errors pass
		fails     string
		ask       func(*patient)
		line, end string
	}{
		"no store":              {false, "store", (*patient).ask, "asking the store error=disk is full", "asking the store"},
		"full disk":             {false, "take", (*patient).ask, "asking the store endpoint=convert account=acc_1 key=key_1 error=disk is full", "asking the store"},
		"login throttle":        {false, "journal", (*patient).logIn, "limiting login attempts error=saving login attempt: disk is full", "limiting login attempts"},
		"upstream":              {false, "upstream", (*patient).ask, "calling the upstream endpoint=convert account=acc_1 key=key_1 status=502 error=connection refused", "calling the upstream"},
		"upstream, errors pass": {true, "upstream", (*patient).ask, "calling the upstream endpoint=convert account=acc_1 key=key_1 status=502 error=connection refused", "calling the upstream"},
		"login":                 {false, "upstream", (*patient).logIn, "calling the upstream to log in status=502 error=connection refused", "calling the upstream to log in"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPatient(t)
				passErrors(p.gate, c.pass)
				c.ask(p)
				if got := p.lines(); got != "" {
					t.Errorf("before the failure: got %s", got)
				}
				p.broken[c.fails] = true
				for range 100 {
					c.ask(p)
					time.Sleep(5 * time.Second / 100)
				}
				if got := p.lines(); got != "error "+c.line {
					t.Errorf("after 5 s: got\n%s\nwant\n%s", got, "error "+c.line)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got, want := p.lines(), "error "+c.line+" failures=99"; got != want {
					t.Errorf("after a minute: got\n%s\nwant\n%s", got, want)
				}
				p.broken[c.fails] = false
				c.ask(p)
				if got := p.lines(); !strings.HasPrefix(got, "info "+c.end+" works again") || !strings.HasSuffix(got, " failures=100") {
					t.Errorf("after the end: got %s", got)
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				c.ask(p)
				if got := p.lines(); got != "" {
					t.Errorf("later: got %s", got)
				}
			})
		})
	}
}

// TestRefundsThatFail: failed refunds are logged like other failures. A client
// that leaves says nothing about the upstream, which does not work again.
func TestRefundsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t)
		p.broken["upstream"], p.broken["refund"] = true, true
		for range 100 {
			p.ask()
		}
		p.gate.Wait()
		if got := p.lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "settling the cost of a call: what it took stays counted endpoint=convert account=acc_1 key=key_1 error=disk is full") {
			t.Errorf("got %s", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		p.send(convert, handlerFunc(func(w http.ResponseWriter, _ *http.Request) error { w.WriteHeader(499); return nil }))
		if got := p.lines(); strings.Count(got, "failures=99") != 2 || strings.Contains(got, "works again") {
			t.Errorf("got %s", got)
		}
	})
}

// TestFailuresNameTheCall: the line about a service that fails, or that breaks
// off its answer, tells whose call it is. It has neither the token nor what the
// service wrote.
func TestFailuresNameTheCall(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	bad := handlerFunc(func(http.ResponseWriter, *http.Request) error {
		return fmt.Errorf("HTTP/1.x transport connection broken: malformed MIME header: missing colon: %q", "ada@example.com s3cret")
	})
	for _, target := range []string{convert, "/", "/api/login"} {
		p.send(target, bad)
		got := p.lines()
		if target == convert && !strings.Contains(got, " endpoint=convert account=acc_1 key=key_1 status=502 ") {
			t.Errorf("%s: the line does not tell whose call it is: %s", target, got)
		}
		if !strings.HasSuffix(got, "missing colon: …") || strings.Contains(got, strings.TrimPrefix(p.bearer, "Bearer ")) {
			t.Errorf("%s: got %s", target, got)
		}
	}
	p = newPatient(t)
	for range 10 {
		func() {
			defer func() {
				if reason := recover(); reason != http.ErrAbortHandler { // net/http compares it the same way
					t.Errorf("got %v, want the panic of the proxy", reason)
				}
			}()
			p.send(convert, handlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				w.WriteHeader(http.StatusOK)
				panic(http.ErrAbortHandler)
			}))
		}()
	}
	if got, want := p.lines(), "error calling the upstream endpoint=convert account=acc_1 key=key_1 error=the answer broke off"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
