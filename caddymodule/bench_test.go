package caddymodule

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// counting is a store that counts in memory only.
type counting struct {
	store.Store // nil: the gate uses no other method in this benchmark
	ledger      *ledger.Ledger
}

func (c counting) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return c.ledger.Grant(&hash, now)
}

func (c counting) Take(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	return c.ledger.Take(call, limits, rooms)
}

func (c counting) Record(store.Record) {}

// BenchmarkHandler measures what Caddy does for a request before its
// handlers, without the gate and with it. The difference is the cost of the
// gate, including its placeholders and metrics.
func BenchmarkHandler(b *testing.B) {
	l := ledger.New(nil)
	l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
	tok, err := token.New(token.Key, rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert"})
	handler := newHandler(b, counting{ledger: l})
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	})
	for name, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"caddy": next.ServeHTTP,
		"gate":  func(w http.ResponseWriter, r *http.Request) error { return handler.ServeHTTP(w, r, next) },
	} {
		b.Run(name, func(b *testing.B) {
			request := httptest.NewRequest("GET", "/api/convert/EUR/10/USD", nil)
			headers := http.Header{"Accept": {"application/json"}, "User-Agent": {"bench/1"}, "Authorization": {"Bearer " + tok.Reveal()}}
			answer := &nothing{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(request.Header)
				for field, values := range headers {
					request.Header[field] = values
				}
				clear(answer.header)
				r := caddyhttp.PrepareRequest(request, caddy.NewReplacer(), answer, nil)
				if err := serve(answer, r); err != nil || answer.status != http.StatusOK {
					b.Fatalf("got %d, %v", answer.status, err)
				}
			}
		})
	}
}

func newHandler(b *testing.B, db store.Store) *Gate {
	b.Helper()
	p, err := policy.New(policy.Config{
		Endpoints: []policy.EndpointConfig{{Name: "convert", Pattern: "GET /api/convert/{from}/{amount}/{to}"}},
		Plans:     []policy.PlanConfig{{Name: "starter", Limits: map[string]*policy.Limit{"convert": new(policy.Limit(policy.MaxLimit))}}},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	b.Cleanup(cancel)
	m, err := newMeter(ctx, p)
	if err != nil {
		b.Fatal(err)
	}
	app := &App{policy: p, Secret: "0123456789abcdef0123456789abcdef"}
	signer, err := app.newSigner()
	if err != nil {
		b.Fatal(err)
	}
	app.state.Store(&state{Backend: Backend{Store: db}})
	app.gate = gate.New(gate.Options{
		Policy: p, Store: func() (gate.Store, error) { return app.Store() }, Limiter: app.Limiter, Assertions: signer,
		Server: server{m}, Reporter: reporter{app}, Now: time.Now, Since: time.Since, Logger: zap.NewNop(),
	})
	return &Gate{app: app}
}

type nothing struct {
	header http.Header
	status int
}

func (n *nothing) Header() http.Header         { return n.header }
func (n *nothing) Write(b []byte) (int, error) { return len(b), nil }
func (n *nothing) WriteHeader(status int)      { n.status = status }
