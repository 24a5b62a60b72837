package gate_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tollgate/tollgate/caddymodule/gate"
	"github.com/caddy-tollgate/tollgate/caddymodule/login"
	"github.com/caddy-tollgate/tollgate/caddymodule/policy"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore/ledger"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// memory is a ledger without a log: it only counts.
type memory struct {
	store.Store // nil: the gate uses no other method in this benchmark
	ledger      *ledger.Ledger
}

func (m memory) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	return m.ledger.Grant(&hash, now)
}

func (m memory) Take(_ context.Context, call store.Call, limits []store.Limit, remaining []int64) (bool, error) {
	return m.ledger.Take(call, limits, remaining)
}

func (m memory) Record(store.Record) {}

// plain is a server without metrics or placeholders.
type plain struct{}

func (plain) Target(r *http.Request) string        { return r.RequestURI }
func (plain) Client(r *http.Request) string        { return r.RemoteAddr }
func (plain) Identified(*http.Request, *gate.Call) {}
func (plain) Mark(*http.Request, *gate.Call)       {}
func (plain) Passed(*http.Request) bool            { return false }
func (plain) Status(error) int                     { return http.StatusBadGateway }
func (plain) Count(*policy.Endpoint, gate.Outcome) {}

func newGate(t testing.TB, db store.Store, limit policy.Limit) *gate.Gate {
	t.Helper()
	p, err := policy.New(policy.Config{
		Endpoints: []policy.EndpointConfig{{Name: "convert", Method: "GET", Path: "/api/convert/{from}/{amount}/{to}"}},
		Plans:     []policy.PlanConfig{{Name: "starter", Limits: map[string]policy.Limit{"convert": limit}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return gate.New(gate.Options{
		Policy: p, Store: func() (gate.Store, error) { return db, nil },
		Limiter:    func() (gate.LoginLimiter, error) { return login.NewLocal(nil), nil },
		Assertions: newSigner(t), Server: plain{}, Now: time.Now, Since: time.Since, Logger: zap.NewNop(),
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

// serverHeap is what a Caddy has in use beside the gate, in bytes. Without
// it the garbage collector, which lets the heap grow to twice of what is
// in use, would run for the gate's few bytes several times as often as it
// does in a server.
const serverHeap = 8 << 20

// ample is a limit that no benchmark reaches.
const ample policy.Limit = 1_000_000_000

// BenchmarkMemory measures an admitted call in the gate itself: path, token,
// plan, count and headers. The handler behind it does nothing and there is
// no log. Requests are prepared before each batch, as a server reads them
// from a connection; only the time of the batches is reported.
func BenchmarkMemory(b *testing.B) {
	for _, accounts := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("accounts=%d", accounts), func(b *testing.B) {
			batches := serveInMemory(b, accounts)
			var spent time.Duration
			for _, took := range batches {
				spent += took
			}
			b.ReportMetric(float64(spent)/float64(len(batches))/batch/float64(runtime.GOMAXPROCS(0)), "ns/op")
		})
	}
}

// BenchmarkMemoryQuiet reports the time of a call in the fastest tenth of the
// batches, with 10^4 accounts on one processor: without other load on the
// host and without garbage collection.
func BenchmarkMemoryQuiet(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	batches := serveInMemory(b, 10_000)
	slices.Sort(batches)
	b.ReportMetric(float64(batches[len(batches)/10])/batch, "ns/op")
}

// serveInMemory serves as many calls of so many accounts as the benchmark
// asks for, in batches, and returns how long each batch took, without the
// time of making its requests ready. Each processor has its share of the
// batches: nothing but the gate is between them.
func serveInMemory(b *testing.B, accounts int) (batches []time.Duration) {
	l, bearers := newLedger(b, accounts, 10_000)
	g := newGate(b, memory{ledger: l}, ample)
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

// warm makes one call with each token: the first one in a minute needs a
// signature, which is the same work however many calls follow.
func warm(b *testing.B, g *gate.Gate, bearers []string) {
	b.Helper()
	c := newCaller(bearers)
	for range bearers {
		c.call(b, g)
	}
}

// newLedger returns a ledger with so many accounts with a token each, and
// the Authorization of so many of them, spread evenly. More than 10,000
// that call within a minute would need a signature for most calls.
func newLedger(b *testing.B, accounts, callers int) (*ledger.Ledger, []string) {
	l := ledger.New(nil)
	bearers := make([]string, 0, min(accounts, callers))
	for i := range accounts {
		account := fmt.Sprintf("acc_%d", i)
		l.PutAccount(account, "starter", false)
		tok := newToken(b)
		l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: account, ID: fmt.Sprintf("key_%d", i), Name: "ci", Abilities: "convert"})
		if i%(accounts/cap(bearers)) == 0 {
			bearers = append(bearers, "Bearer "+tok.Reveal())
		}
	}
	return l, bearers
}

// serveBatches serves a number of batches and notes how long each took.
func serveBatches(b *testing.B, g *gate.Gate, bearers []string, seed int, batches []time.Duration) {
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

// BenchmarkHash is the least that it costs to find a token by its hash. It
// tells how fast a machine is at the moment.
func BenchmarkHash(b *testing.B) {
	text := []byte(newToken(b).Reveal())
	for range b.N {
		hash := sha256.Sum256(text)
		text[0] ^= hash[0] // each waits for the one before
	}
}

// BenchmarkRefusals measures two refusals: of a call without calls left, and
// of an unknown token.
func BenchmarkRefusals(b *testing.B) {
	for name, limit := range map[string]policy.Limit{"exhausted": 0, "invalid": 1} {
		b.Run(name, func(b *testing.B) {
			g, bearer := refusing(b, limit)
			c := newCaller([]string{bearer})
			b.ReportAllocs()
			for b.Loop() {
				c.prepare()
				if err := g.Serve(c.writer, c.request, noop{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// refusing returns a gate and a token that it refuses: for the limit if that
// is 0, otherwise because the token is unknown.
func refusing(t testing.TB, limit policy.Limit) (*gate.Gate, string) {
	t.Helper()
	l, tok := ledger.New(nil), newToken(t)
	if limit == 0 {
		l.PutAccount("acc_1", "starter", false)
		l.PutToken(&ledger.Token{Hash: tok.Hash(), Account: "acc_1", ID: "key_1", Name: "ci", Abilities: "convert"})
	}
	return newGate(t, memory{ledger: l}, limit), "Bearer " + tok.Reveal()
}

// BenchmarkDurable is the same with each call in the store's log before it
// is passed on. The number of accounts decides how often a segment of the
// log repeats each counter.
func BenchmarkDurable(b *testing.B) {
	for _, accounts := range []int{100, 10_000} {
		for _, callers := range []int{2, 256} {
			b.Run(fmt.Sprintf("accounts=%d/callers=%d", accounts, callers), func(b *testing.B) {
				benchmarkDurable(b, accounts, callers)
			})
		}
	}
}

func benchmarkDurable(b *testing.B, accounts, callers int) {
	db, err := badgerstore.Open(b.TempDir(), badgerstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	l, bearers := newLedger(b, accounts, accounts)
	g := newGate(b, durable{Store: db, ledger: l}, ample)
	b.SetParallelism(callers / 2)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		c := newCaller(bearers)
		for pb.Next() {
			c.call(b, g)
		}
	})
}

// durable grants from a ledger, since it takes half a minute to write
// 10,000 accounts to a store one by one, and counts in the store.
type durable struct {
	store.Store
	ledger *ledger.Ledger
}

func (d durable) Grant(_ context.Context, hash token.Hash, now time.Time) (store.Grant, error) {
	grant, err := d.ledger.Grant(&hash, now)
	grant.Handle = 0 // means nothing to the store
	return grant, err
}

// caller repeats a request without making a new one each time.
type caller struct {
	bearers []string
	next    int
	read    int
	request *http.Request
	header  http.Header
	writer  *discard
}

func newCaller(bearers []string) *caller {
	r := httptest.NewRequest("GET", "/api/convert/EUR/10/USD", nil)
	r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"bench/1"}, "Accept-Encoding": {"gzip"}, "Authorization": {""}}
	return &caller{bearers: bearers, request: r, header: r.Header, writer: &discard{header: http.Header{}}}
}

func (c *caller) call(b testing.TB, g *gate.Gate) {
	c.prepare()
	if err := c.serve(g); err != nil {
		b.Fatal(err)
	}
}

// prepare makes the request and the answer what they are when they come
// from a server.
func (c *caller) prepare() {
	c.next = (c.next + 7919) % len(c.bearers)
	clear(c.header)
	c.header["Accept"], c.header["User-Agent"], c.header["Accept-Encoding"] = accept, agent, encoding
	c.header["Authorization"] = c.authorization()
	c.read += strings.Count(c.bearers[c.next], " ") // as a server has just read it
	clear(c.writer.header)
	c.writer.status = 0
}

func (c *caller) serve(g *gate.Gate) error {
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
