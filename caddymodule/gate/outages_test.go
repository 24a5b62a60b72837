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

	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
)

// patient is a gate over parts that fail while they are told to.
type patient struct {
	memory
	gate   *gate.Gate
	bearer string
	log    *observer.ObservedLogs
	asked  atomic.Int64

	noStore, noTake, noGiveBack, noUpstream, noJournal atomic.Bool
}

var errFull = errors.New("disk is full")

func (p *patient) Take(ctx context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	if p.noTake.Load() {
		return false, errFull
	}
	return p.memory.Take(ctx, call, limits, rooms)
}

func (p *patient) GiveBack(context.Context, store.Call) error {
	if p.noGiveBack.Load() {
		return errFull
	}
	return nil
}

// Save is login.Journal's.
func (p *patient) Save(context.Context, []login.Row) error {
	if p.noJournal.Load() {
		return errFull
	}
	return nil
}

// LoadAttempts is login.Journal's.
func (p *patient) LoadAttempts(context.Context, func(key, value []byte) error) error { return nil }

// ServeHTTP is the upstream.
func (p *patient) ServeHTTP(w http.ResponseWriter, _ *http.Request) error {
	if p.noUpstream.Load() {
		return errors.New("connection refused")
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func newPatient(t *testing.T, more func(*gate.Options)) *patient {
	t.Helper()
	l := ledger.New(nil)
	tok := newToken(t)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert"})
	p := &patient{memory: memory{ledger: l}, bearer: "Authorization: Bearer " + tok.Reveal()}
	core, log := observer.New(zapcore.InfoLevel)
	p.log = log
	limits := policy.LoginThrottle{PerClient: 1000, Window: policy.Duration(time.Second), FreeFailures: 256}
	compiled, err := policy.New(policy.Config{
		Guard: []string{"/api/"}, Logins: []string{"POST /api/login"}, LoginThrottle: limits,
		Endpoints: []policy.EndpointConfig{{Name: "convert", Pattern: "GET /api/convert/{from}/{amount}/{to}"}},
		Plans:     []policy.PlanConfig{{Name: "starter", Limits: map[string]*policy.Limit{"convert": new(ample)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	limiter := login.NewLocal(p)
	o := gate.Options{
		Policy: compiled, Assertions: newSigner(t), Server: plain{}, Reporter: plain{}, Now: time.Now, Since: time.Since, Logger: zap.New(core),
		Store: func() (gate.Store, error) {
			if p.noStore.Load() {
				return nil, errFull
			}
			return p, nil
		},
		Limiter: func() (gate.LoginLimiter, error) { return limiter, nil },
	}
	if more != nil {
		more(&o)
	}
	p.gate = gate.New(o)
	return p
}

// ask makes a call, and log in attempts to log in.
func (p *patient) ask() { p.send("GET", convert, "", p.bearer) }
func (p *patient) logIn() {
	p.send("POST", "/api/login", `{"email":"a@b"}`, "Content-Type: application/json")
}

func (p *patient) send(method, target, body string, headers ...string) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	r.RemoteAddr = fmt.Sprintf("192.0.2.%d", p.asked.Add(1)%100)
	// An error is for the server to answer.
	_ = p.gate.Serve(httptest.NewRecorder(), r, p)
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

// TestTenThousandFailuresInFiveSeconds: for each kind of failure the log has
// a line at the beginning, one a minute with the number, and one at the end.
func TestTenThousandFailuresInFiveSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		more      func(*gate.Options)
		fails     func(*patient) *atomic.Bool
		ask       func(*patient)
		line, end string
	}{
		"no store":               {nil, func(p *patient) *atomic.Bool { return &p.noStore }, (*patient).ask, "asking the store error=disk is full", "asking the store"},
		"full disk":              {nil, func(p *patient) *atomic.Bool { return &p.noTake }, (*patient).ask, "asking the store endpoint=convert account=acc_1 key=key_1 error=disk is full", "asking the store"},
		"login throttle":         {nil, func(p *patient) *atomic.Bool { return &p.noJournal }, (*patient).logIn, "limiting login attempts error=saving login attempt: disk is full", "limiting login attempts"},
		"upstream":               {nil, func(p *patient) *atomic.Bool { return &p.noUpstream }, (*patient).ask, "calling the upstream endpoint=convert account=acc_1 key=key_1 status=502 error=connection refused", "calling the upstream"},
		"upstream, errors pass":  {passing, func(p *patient) *atomic.Bool { return &p.noUpstream }, (*patient).ask, "calling the upstream endpoint=convert account=acc_1 key=key_1 status=502 error=connection refused", "calling the upstream"},
		"login":                  {nil, func(p *patient) *atomic.Bool { return &p.noUpstream }, (*patient).logIn, "calling the upstream to log in status=502 error=connection refused", "calling the upstream to log in"},
		"store with errors pass": {passing, func(p *patient) *atomic.Bool { return &p.noTake }, (*patient).ask, "asking the store endpoint=convert account=acc_1 key=key_1 error=disk is full", "asking the store"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPatient(t, c.more)
				failing := c.fails(p)
				c.ask(p)
				if got := p.lines(); got != "" {
					t.Errorf("before the failure: got %s", got)
				}
				failing.Store(true)
				for range 10_000 {
					c.ask(p)
					time.Sleep(5 * time.Second / 10_000)
				}
				if got := p.lines(); got != "error "+c.line {
					t.Errorf("after 5 s: got\n%s\nwant\n%s", got, "error "+c.line)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got, want := p.lines(), "error "+c.line+" failures=9999"; got != want {
					t.Errorf("after a minute: got\n%s\nwant\n%s", got, want)
				}
				failing.Store(false)
				c.ask(p)
				if got := p.lines(); !strings.HasPrefix(got, "info "+c.end+" works again") || !strings.HasSuffix(got, " failures=10000") {
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

func passing(o *gate.Options) { o.PassErrors = true }

// TestRefundsThatFail: failed refunds are logged like other failures.
func TestRefundsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t, nil)
		p.noUpstream.Store(true)
		p.noGiveBack.Store(true)
		for range 1000 {
			p.ask()
		}
		if got := p.lines(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "giving a call back endpoint=convert account=acc_1 key=key_1 error=disk is full") {
			t.Errorf("got %s", got)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := p.lines(); strings.Count(got, "failures=999") != 2 {
			t.Errorf("got %s", got)
		}
	})
}

// TestFailuresNameTheCall: the line about a service that fails tells whose call
// it is, and has neither the token nor what the service wrote.
func TestFailuresNameTheCall(t *testing.T) {
	t.Parallel()
	p := newPatient(t, nil)
	bad := handlerFunc(func(http.ResponseWriter, *http.Request) error {
		return fmt.Errorf("HTTP/1.x transport connection broken: malformed MIME header: missing colon: %q", "ada@example.com s3cret")
	})
	for name, target := range map[string]string{"a call": convert, "an open path": "/", "a login": "/api/login"} {
		r := httptest.NewRequest("GET", target, nil)
		if target == "/api/login" {
			r = httptest.NewRequest("POST", target, strings.NewReader(`{"email":"a@b"}`))
			r.Header.Set("Content-Type", "application/json")
		}
		r.Header.Set("Authorization", strings.TrimPrefix(p.bearer, "Authorization: "))
		_ = p.gate.Serve(httptest.NewRecorder(), r, bad)
		got := p.lines()
		if target == convert && !strings.Contains(got, " endpoint=convert account=acc_1 key=key_1 status=502 ") {
			t.Errorf("%s: the line does not tell whose call it is: %s", name, got)
		}
		if !strings.HasSuffix(got, "missing colon: …") || strings.Contains(got, p.bearer[len("Authorization: Bearer "):]) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestAnswersThatBreakOff: a service that breaks off its answers is a failure,
// with one line for all of them.
func TestAnswersThatBreakOff(t *testing.T) {
	t.Parallel()
	p := newPatient(t, nil)
	for range 100 {
		r := httptest.NewRequest("GET", convert, nil)
		r.Header.Set("Authorization", strings.TrimPrefix(p.bearer, "Authorization: "))
		func() {
			defer func() {
				if reason := recover(); reason != http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
					t.Errorf("got %v, want the panic of the proxy", reason)
				}
			}()
			_ = p.gate.Serve(httptest.NewRecorder(), r, handlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
				w.WriteHeader(http.StatusOK)
				panic(http.ErrAbortHandler)
			}))
		}()
	}
	if got, want := p.lines(), "error calling the upstream endpoint=convert account=acc_1 key=key_1 error=the answer broke off"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestClientsThatLeave: a client that closes its connection says nothing about
// the upstream, which does not work again because of it.
func TestClientsThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t, nil)
		p.noUpstream.Store(true)
		p.ask()
		time.Sleep(10 * time.Second)
		r := httptest.NewRequest("GET", convert, nil)
		r.Header.Set("Authorization", strings.TrimPrefix(p.bearer, "Authorization: "))
		if err := p.gate.Serve(httptest.NewRecorder(), r, handlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
			w.WriteHeader(499)
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		if got := p.lines(); strings.Contains(got, "works again") {
			t.Errorf("got %s", got)
		}
	})
}
