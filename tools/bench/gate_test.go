package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// built returns a run with the built Caddy. It stops what the test starts.
func built(t *testing.T) *bench {
	t.Helper()
	caddy, err := filepath.Abs(filepath.Join("..", "..", "bin", "caddy"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat(caddy)
	need(t, err)
	b := &bench{rounds: 1, seconds: 1, repeats: 1, accounts: 300, caddy: caddy, dir: t.TempDir()}
	if err := b.startUpstream(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// need ends a test without a program: err tells that it is missing.
func need(t *testing.T, err error) {
	t.Helper()
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal(err)
	} else if err != nil {
		t.Skip(err)
	}
}

// wantEnded stops what a run has started.
func wantEnded(t *testing.T, b *bench, pids ...int) {
	t.Helper()
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
}

// The gates on both stores admit and refuse alike. A call on Redis with a key
// that the gate knows is one command. stop leaves no process behind.
func TestGates(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("redis-server")
	need(t, err)
	b := built(t)
	r, err := b.startRedis()
	if err != nil {
		t.Fatal(err)
	}
	onRedis, err := b.startRedisGate(t.Context(), r, "unix://"+r.socket, proxyTo(b.upstream))
	if err != nil {
		t.Fatal(err)
	}
	synced, err := b.startGate(t.Context(), "sync on", proxyTo(b.upstream))
	if err != nil {
		t.Fatal(err)
	}
	for name, g := range map[string]*gate{"redis": onRedis, "badger": synced} {
		for _, want := range []answers{
			{g.ample[keys-1], http.StatusOK, `"convert";r=`}, {g.exhausted[keys-1], http.StatusTooManyRequests, `"convert";r=0;`},
			{"", http.StatusUnauthorized, ""}, {onRedis.four[1] + "0", http.StatusUnauthorized, ""},
		} {
			if err := g.answers(t.Context(), want); err != nil {
				t.Errorf("store %s: %v", name, err)
			}
		}
		response, err := g.call(t.Context(), g.four[0])
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if limits := response.Header.Get("RateLimit"); strings.Count(limits, ";r=") != 4 {
			t.Errorf("store %s: the limits are %s, want four", name, limits)
		}
	}
	trips, err := countTrips(t.Context(), onRedis, r, 2)
	if err != nil || !slices.Equal(trips, values{1, 1}) {
		t.Errorf("got %v round trips per call, %v, want 1 in both rounds", trips, err)
	}
	wantEnded(t, b, onRedis.pid(), synced.pid(), r.PID())
}

// If Caddy refuses its configuration, startCaddy does not wait and returns
// Caddy's message.
func TestInvalidConfiguration(t *testing.T) {
	t.Parallel()
	_, err := built(t).startCaddy(t.Context(), "", "no_such_directive", answers{status: http.StatusOK})
	if err == nil || !strings.Contains(err.Error(), "no_such_directive") {
		t.Errorf("got %v, want Caddy's message", err)
	}
}

// The large stores have the accounts, their keys and counts: the measurements
// wait for what needs them.
func TestLargeStores(t *testing.T) {
	t.Parallel()
	b := built(t)
	for name, measure := range map[string]func() ([]row, error){
		"start": func() ([]row, error) { return measureStart(t.Context(), b) },
		scale:   func() ([]row, error) { return measureScale(t.Context(), b) },
	} {
		rows, err := measure()
		if err != nil || len(rows) < 2 {
			t.Errorf("%s: got %d rows, %v", name, len(rows), err)
		}
		for _, r := range rows {
			if r.measured.median() <= 0 {
				t.Errorf("%s: %s: got %v", name, r.what, r.measured)
			}
		}
	}
}

// The proxy with the headers of the gate sends the upstream and the client
// the same fields as the gate, and an assertion of the same length.
func TestGateHeaders(t *testing.T) {
	t.Parallel()
	var last atomic.Pointer[http.Header] // of the upstream
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		last.Store(&r.Header)
	}))
	defer upstream.Close()
	address := strings.TrimPrefix(upstream.URL, "http://")
	b := built(t)
	g, err := b.startGate(t.Context(), "sync off", proxyTo(address))
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := b.startCaddy(t.Context(), "", proxyTo(address, gateHeaders), answers{status: http.StatusOK})
	if err != nil {
		t.Fatal(err)
	}
	fields := func(s *server) [2][]string {
		response, err := s.call(t.Context(), g.ample[42])
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return [2][]string{slices.Sorted(maps.Keys(*last.Load())), slices.Sorted(maps.Keys(response.Header))}
	}
	got, want := fields(proxy), fields(g.server)
	if length := len(last.Load().Get("Tollgate-Assertion")); length < assertionLength-2 || length > assertionLength+2 {
		t.Errorf("assertion of %d bytes, want assertionLength=%d", length, assertionLength)
	}
	for i, receiver := range []string{"upstream", "client"} {
		if !slices.Equal(got[i], want[i]) {
			t.Errorf("the %s gets %q, behind the gate %q", receiver, got[i], want[i])
		}
	}
	if !slices.Contains(want[0], "Tollgate-Assertion") || !slices.Contains(want[1], "Ratelimit") {
		t.Errorf("behind the gate the upstream gets %q and the client %q", want[0], want[1])
	}
}

// The gate with the access log of the shipped Caddyfile writes a line for a call.
func TestShippedLog(t *testing.T) {
	t.Parallel()
	b := built(t)
	log, err := b.shippedLog()
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.startGate(t.Context(), "sync off", proxyTo(b.upstream)+log)
	if err != nil {
		t.Fatal(err)
	}
	wantEnded(t, b, g.pid())
	text, err := os.ReadFile(filepath.Join(g.process.Dir, "data", "log", "access.log"))
	if err != nil || !strings.Contains(string(text), `"call":{"account":"ample_0"`) {
		t.Errorf("the access log is %q, %v", text, err)
	}
}
