package gate_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/internal/gate"
	"github.com/caddy-tollgate/tollgate/internal/gate/outcome"
	"github.com/caddy-tollgate/tollgate/internal/login"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/internal/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// memory is a ledger without a log: it only counts.
type memory struct {
	gate.Store // nil: the gate uses no other method in this benchmark
	ledger     *ledger.Ledger
}

func (m memory) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return m.ledger.Grant(&hash, now)
}

func (m memory) Take(_ context.Context, call store.Call, limits []store.Limit, rooms []store.Room) (bool, error) {
	return m.ledger.Take(call, limits, rooms)
}

func (m memory) Settle(_ context.Context, call store.Call, _ []store.Limit, _ []store.Room, cost int64, _ bool) error {
	return m.ledger.Settle(call, nil, nil, cost, false)
}

func (m memory) Record(store.Record) {}

// plain is a server without metrics or placeholders.
type plain struct{}

func (plain) Identified(*http.Request, *gate.Call)     {}
func (plain) Ended(*http.Request, string, string)      {}
func (plain) RequestID(*http.Request, bool) string     { return "" }
func (plain) Identity(*http.Request, string) string    { return "" }
func (plain) Placeholder(*http.Request, string) string { return "" }
func (plain) Status(error) int                         { return http.StatusBadGateway }
func (plain) Proxied(*http.Request) bool               { return true }
func (plain) RemoveQuery(*http.Request)                {}
func (plain) Count(*policy.Endpoint, outcome.Call)     {}
func (plain) CountLogin(outcome.Login)                 {}
func (plain) Decided(time.Duration)                    {}

func (plain) Refused(string, *policy.Endpoint, string, store.NoGrant) {}
func (plain) Reached(store.Quota)                                     {}

func (plain) Mark(r *http.Request) *gate.Mark {
	m := markOf(r)
	m.Target, m.Client = r.RequestURI, r.RemoteAddr
	return m
}

func newGate(t testing.TB, db gate.Store, limit policy.Limit, more ...policy.LimitConfig) *gate.Gate {
	t.Helper()
	p, err := policy.New(policy.Config{
		Endpoints: []policy.EndpointConfig{{Name: "convert", Patterns: []string{"GET /api/convert/{from}/{amount}/{to}"}}},
		Plans:     []policy.PlanConfig{{Name: "starter", Limits: map[string]*policy.Limit{"convert": &limit}, MoreLimits: more}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return gate.New(gate.Options{
		Policy: p, Store: func() (gate.Store, error) { return db, nil },
		Limiter:    func() (*login.Limiter, error) { return login.New(login.NewMemory(time.Now, nil)), nil },
		Assertions: newSigner(t), Reservations: gate.NewReservations(), Server: plain{}, Reporter: plain{}, Now: time.Now, Since: time.Since, Logger: zap.NewNop(),
	})
}

func newToken(t testing.TB) token.Token {
	t.Helper()
	tok, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// batch is how many requests are prepared at a time.
const batch = 64

// serverHeap is the memory that Caddy uses besides the gate, in bytes. The
// garbage collector runs when the heap has doubled. Without these bytes it
// would run several times as often as in a server.
const serverHeap = 8 << 20

// ample is a limit that no benchmark reaches.
const ample policy.Limit = 1_000_000_000

// BenchmarkMemory measures an admitted call in the gate: path, token,
// plan, count and headers. The next handler does nothing, and the count is
// in memory only. A server prepares each request, so the benchmark prepares
// a batch of requests first and measures the batch without that.
func BenchmarkMemory(b *testing.B) {
	for _, accounts := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			g, bearers := newMemoryGate(b, accounts)
			reportPerCall(b, serveInProcess(b, g, bearers))
		})
	}
}

// newMemoryGate returns a gate that counts in memory only, and the Authorization
// of its callers.
func newMemoryGate(b *testing.B, accounts int) (*gate.Gate, []string) {
	l, bearers := newLedger(b, accounts, 10_000)
	return newGate(b, memory{ledger: l}, ample), bearers
}

// reportPerCall reports the time of a call of all processors together.
func reportPerCall(b *testing.B, batches []time.Duration) {
	var spent time.Duration
	for _, took := range batches {
		spent += took
	}
	b.ReportMetric(float64(spent)/float64(len(batches))/batch/float64(runtime.GOMAXPROCS(0)), "ns/op")
}

// serveInProcess serves b.N calls in batches and returns the duration of
// each batch. It gives each processor a part of the batches, so that the
// processors share the gate only.
func serveInProcess(b *testing.B, g server, bearers []string) (batches []time.Duration) {
	warm(b, g, bearers)
	server := make([]byte, serverHeap)
	defer runtime.KeepAlive(server)
	batches = make([]time.Duration, (b.N+batch-1)/batch)
	share := (len(batches) + runtime.GOMAXPROCS(0) - 1) / runtime.GOMAXPROCS(0)
	b.ReportAllocs()
	b.ResetTimer()
	var done sync.WaitGroup
	first := 0
	for mine := range slices.Chunk(batches, share) {
		seed := first * batch
		done.Go(func() { serveBatches(b, g, bearers, seed, mine) })
		first += len(mine)
	}
	done.Wait()
	return batches
}

// server is a gate, or what is measured beside it.
type server interface {
	Serve(w http.ResponseWriter, r *http.Request, next gate.Handler) error
}

// warm makes one call with each token. The first call of a minute needs a
// signature, and the first call of a month loads the counts of the account.
func warm(b *testing.B, g server, bearers []string) {
	b.Helper()
	c := newCaller(bearers)
	for range bearers {
		c.call(b, g)
	}
}

// newLedger returns a ledger of accounts with a token each, and the
// Authorization of some of them (callers), evenly distributed. The gate
// caches 10,000 signatures: with more callers most calls need a new one.
func newLedger(b *testing.B, accounts, callers int) (*ledger.Ledger, []string) {
	l := ledger.New(nil)
	bearers := make([]string, 0, min(accounts, callers))
	for i := range accounts {
		account := fmt.Sprintf("acc_%d", i)
		l.PutAccount(&store.Account{ID: account, Plan: "starter"})
		tok := newToken(b)
		l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: account, ID: fmt.Sprintf("key_%d", i), Name: "ci", Abilities: "convert"})
		if i%(accounts/cap(bearers)) == 0 {
			bearers = append(bearers, "Bearer "+tok.Reveal())
		}
	}
	return l, bearers
}

// serveBatches serves batches and sets the duration of each.
func serveBatches(b *testing.B, g server, bearers []string, seed int, batches []time.Duration) {
	callers := make([]*caller, batch)
	for i := range callers {
		callers[i] = newCaller(bearers)
		callers[i].next = seed + i*31
	}
	for i := range batches {
		for _, c := range callers {
			c.prepare()
		}
		began := time.Now()
		for _, c := range callers {
			if err := c.serve(g); err != nil {
				b.Error(err)
				return
			}
		}
		batches[i] = time.Since(began)
	}
}

// refusing returns a gate and a token that it refuses: for the limit if that
// is 0, otherwise because the token is unknown.
func refusing(t testing.TB, limit policy.Limit) (*gate.Gate, string) {
	t.Helper()
	l, tok := ledger.New(nil), newToken(t)
	if limit == 0 {
		l.PutAccount(&store.Account{ID: "acc_1", Plan: "starter"})
		l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert"})
	}
	return newGate(t, memory{ledger: l}, limit), "Bearer " + tok.Reveal()
}

// durableCallers is the number of calls that BenchmarkDurable makes at the
// same time.
const durableCallers = 256

// BenchmarkDurable is BenchmarkMemory with a durable count: the store logs
// each call before the gate admits it. A segment of the log repeats each
// counter, so the number of active accounts matters.
func BenchmarkDurable(b *testing.B) {
	for _, accounts := range []int{100, 10_000} {
		for _, more := range [][]policy.LimitConfig{nil, threeMore} {
			b.Run(fmt.Sprintf("accounts=%d/limits=%d", accounts, 1+len(more)), func(b *testing.B) {
				benchmarkDurable(b, accounts, more)
			})
		}
	}
}

func benchmarkDurable(b *testing.B, accounts int, more []policy.LimitConfig) {
	db, err := badgerstore.Open(b.TempDir(), badgerstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	opened := storetest.New(db)
	defer opened.Close()
	l, bearers := newLedger(b, accounts, accounts)
	g := newGate(b, durable{Store: opened, ledger: l}, ample, more...)
	warm(b, g, bearers)
	var caller atomic.Int64
	b.SetParallelism(durableCallers / runtime.GOMAXPROCS(0))
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		c := newCaller(bearers)
		c.next = int(caller.Add(1)) * 31
		for pb.Next() {
			c.call(b, g)
		}
	})
}

// threeMore are limits besides that of the day.
var threeMore = []policy.LimitConfig{
	{Endpoint: "convert", Period: "month", Limit: ample},
	{Endpoint: "all", Period: "month", Limit: ample},
	{Endpoint: "convert", Period: "second", Limit: ample},
}

// durable is a store on a disk. It grants from a ledger, because writing
// 10,000 accounts to the disk one by one takes half a minute.
type durable struct {
	gate.Store
	ledger *ledger.Ledger
}

func (d durable) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	grant, err := d.ledger.Grant(&hash, now)
	grant.Handle = 0 // the store does not know the handles of the ledger
	return grant, err
}

// caller repeats a request and reuses its memory.
type caller struct {
	bearers []string
	next    int
	read    int
	request *http.Request
	header  http.Header
	writer  *discard
}

func newCaller(bearers []string) *caller {
	r := marked(httptest.NewRequest("GET", "/api/convert/EUR/10/USD", nil))
	r.RemoteAddr = "192.0.2.1" // without a port, as the client of Caddy
	r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"bench/1"}, "Accept-Encoding": {"gzip"}, "Authorization": {""}}
	return &caller{bearers: bearers, request: r, header: r.Header, writer: &discard{header: http.Header{}}}
}

func (c *caller) call(b testing.TB, g server) {
	c.prepare()
	if err := c.serve(g); err != nil {
		b.Fatal(err)
	}
}

// prepare sets the request and the answer as a server does.
func (c *caller) prepare() {
	c.next = (c.next + 7919) % len(c.bearers)
	clear(c.header)
	c.header["Accept"], c.header["User-Agent"], c.header["Accept-Encoding"] = accept, agent, encoding
	c.header["Authorization"] = c.authorization()
	c.read += strings.Count(c.bearers[c.next], " ") // a server has just read it, so it is in the processor's cache
	clear(c.writer.header)
	c.writer.status = 0
}

func (c *caller) serve(g server) error {
	err := g.Serve(c.writer, c.request, noop{})
	if err == nil && c.writer.status != http.StatusOK {
		err = fmt.Errorf("got status %d", c.writer.status)
	}
	return err
}

var accept, agent, encoding = []string{"application/json"}, []string{"bench/1"}, []string{"gzip"}

func (c *caller) authorization() []string { return c.bearers[c.next : c.next+1 : c.next+1] }

type noop struct{}

func (noop) ServeHTTP(w http.ResponseWriter, _ *http.Request) error {
	w.WriteHeader(http.StatusOK)
	return nil
}

type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }
