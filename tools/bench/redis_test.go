package main

import (
	"math"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The gate on redis admits and refuses like the others. A call with a key that
// it knows is one command. stop leaves no server behind.
func TestRedisSide(t *testing.T) {
	t.Parallel()
	b := built(t)
	if _, err := exec.LookPath(redisServer); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("redis-server is not installed")
	}
	upstream, err := b.startUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.startRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.startRedisGate(t.Context(), r, r.URL(), proxyTo(upstream))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		token string
		items int // of the field RateLimit
		want  int
	}{
		"a limit of a day": {g.ample[keys-1], 1, http.StatusOK},
		"four limits":      {g.four[keys-1], 4, http.StatusOK},
		"exhausted":        {g.exhausted[keys-1], 1, http.StatusTooManyRequests},
		"no token":         {"", 0, http.StatusUnauthorized},
	} {
		response, err := g.call(t.Context(), test.token)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		response.Body.Close()
		items := strings.Count(response.Header.Get("RateLimit"), ";r=")
		if response.StatusCode != test.want || items != test.items {
			t.Errorf("%s: got %d and %d limits, want %d and %d", name, response.StatusCode, items, test.want, test.items)
		}
	}
	before, err := r.commands()
	if err != nil {
		t.Fatal(err)
	}
	trips, err := countTrips(t.Context(), g, r, 2)
	if err != nil || !slices.Equal(trips, values{1, 1}) {
		t.Errorf("got %v round trips per call, %v, want 1 in both rounds", trips, err)
	}
	s := &side{server: g.server, redis: r}
	after, err := s.spent()
	if err != nil || after.redisCommands-before < 2*tripCalls || after.redisCPU <= 0 || after.cpu <= 0 {
		t.Errorf("after %d calls on %d commands: got %+v, %v", keys+2*tripCalls, before, after, err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{g.pid(), r.pid} {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
}

func TestPerRequest(t *testing.T) {
	t.Parallel()
	before := spent{cpu: time.Second, redisCPU: 2 * time.Second, redisCommands: 100, memory: memory{resident: 1}}
	after := spent{cpu: 3 * time.Second, redisCPU: 3 * time.Second, redisCommands: 1150, memory: memory{resident: 7}}
	got := perRequest(before, after, load{Requests: 1000, Duration: 500_000, P50: 20, P99: 40})
	if got.hash <= 0 {
		t.Errorf("H is %v", got.hash)
	}
	got.hash = 0
	want := measured{rate: 2000, cpu: 2e6, p50: 20e3, p99: 40e3, memory: memory{resident: 7}, redisCPU: 1e6, redisCommands: 1.05}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Each row compares the sides that its name says.
func TestRedisRows(t *testing.T) {
	t.Parallel()
	of := func(m measured) *side {
		m.hash = 0.1
		return &side{rounds: []measured{m}}
	}
	rows := redisRows(redisSides{
		badger:      baseline{of(measured{rate: 1000, cpu: 100, p99: 10}), of(measured{rate: 990, cpu: 102, p99: 11})},
		oneOnRedis:  of(measured{rate: 800, cpu: 120, p99: 15, redisCPU: 29, redisCommands: 1.01}),
		badgerFour:  of(measured{rate: 900, cpu: 105, p99: 12}),
		fourOnRedis: of(measured{rate: 630, cpu: 130, p99: 18, redisCPU: 32, redisCommands: 1.02}),
	}, values{1, 1, 2})
	got := map[string][2]float64{}
	for _, r := range slices.Backward(rows) { // two names are the same: the first row counts
		got[strings.TrimSpace(r.what)] = [2]float64{r.measured.median(), r.noise.median()}
	}
	none := math.NaN()
	for what, want := range map[string][2]float64{
		"store redis against badger, a limit of a day, requests/s": {0.8, 0.99},
		"requests/s with four limits on a call":                    {0.7, 0.99},
		"p99":                                                      {1.5, 1.1},
		"processor time of Caddy per request":                      {1.2, 1.02},
		"processor time of redis-server per request":               {29, none},
		"the same with four limits on a call":                      {32, none},
		"round trips per admitted call":                            {1, none},
		"scripts per request, with those that follow the answers":  {1.01, none},
		"store badger, a limit of a day, requests/s":               {1000, 990},
	} {
		for i := range want {
			if math.Abs(got[what][i]-want[i]) > 1e-9 || math.IsNaN(got[what][i]) != math.IsNaN(want[i]) {
				t.Errorf("%s: got %v, want %v", what, got[what], want)
			}
		}
	}
	// 100 ns are 1000 H of 0.1 ns, and the equal side differs by 2 %.
	if got := rows[len(rows)-1].cells(); got[2] != "0.1 µs = 1000 H" || got[3] != "± 20 H" {
		t.Errorf("got %q", got)
	}
	for i, want := range []target{atLeast(0.70), atLeast(0.65)} {
		if r := rows[i]; r.target != want {
			t.Errorf("%s: got the target %+v", r.what, r.target)
		}
	}
}

func TestCallsOf(t *testing.T) {
	t.Parallel()
	const info = "# Commandstats\r\ncmdstat_eval:calls=2,usec=9\r\ncmdstat_evalsha:calls=21,usec=175,usec_per_call=8.33\r\n"
	for name, test := range map[string]struct {
		info string
		want int64
	}{"some": {info, 21}, "none": {"# Commandstats\r\ncmdstat_eval:calls=2,usec=9\r\n", 0}} {
		if got, err := callsOf(infoField(test.info, "cmdstat_evalsha")); got != test.want || err != nil {
			t.Errorf("%s: got %d, %v, want %d", name, got, err, test.want)
		}
	}
	for _, text := range []string{"usec=175", "calls=", "calls=x,usec=1"} {
		if got, err := callsOf(text); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

func TestRedisVersion(t *testing.T) {
	t.Parallel()
	if got := redisVersion("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1\n"); got != "7.0.15" {
		t.Errorf("got %q", got)
	}
}
