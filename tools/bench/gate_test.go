package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
	if _, err := os.Stat(caddy); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("bin/caddy is not built")
	}
	b := &bench{rounds: 1, seconds: 1, repeats: 1, accounts: 100, caddy: caddy, dir: t.TempDir()}
	t.Cleanup(func() {
		if err := b.stop(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// The sides give the expected answers, and stop leaves no process behind.
func TestSides(t *testing.T) {
	t.Parallel()
	b := built(t)
	upstream, err := b.startUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first, second, err := b.startProxies(t.Context(), proxyTo(upstream), http.StatusOK)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := b.startGate(t.Context(), "sync off", proxyTo(upstream))
	if err != nil {
		t.Fatal(err)
	}
	synced, err := b.startGate(t.Context(), "sync on", proxyTo(upstream))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		server *server
		token  string
		want   int
	}{
		"first proxy":         {first, gate.ample[0], http.StatusOK},
		"second proxy":        {second, gate.ample[0], http.StatusOK},
		"gate":                {gate.server, gate.ample[keys-1], http.StatusOK},
		"gate, exhausted":     {gate.server, gate.exhausted[keys-1], http.StatusTooManyRequests},
		"gate, no token":      {gate.server, "", http.StatusUnauthorized},
		"synced":              {synced.server, synced.ample[0], http.StatusOK},
		"synced, foreign key": {synced.server, gate.ample[0], http.StatusUnauthorized},
	} {
		response, err := test.server.call(t.Context(), test.token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", name, response.StatusCode, test.want)
		}
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{first.pid(), second.pid(), gate.pid(), synced.pid()} {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
}

// If Caddy refuses its configuration, startCaddy does not wait and returns
// Caddy's message.
func TestInvalidConfiguration(t *testing.T) {
	t.Parallel()
	_, err := built(t).startCaddy(t.Context(), caddyConfig{site: "no_such_directive"}, answers{status: http.StatusOK})
	if err == nil || !strings.Contains(err.Error(), "no_such_directive") {
		t.Errorf("got %v, want Caddy's message", err)
	}
}

// The large store has the accounts and their counts: measureStart itself waits
// for the next call.
func TestStart(t *testing.T) {
	t.Parallel()
	rows, err := measureStart(t.Context(), built(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 3 || len(rows[0].measured) != 1 {
		t.Errorf("got %+v", rows)
	}
}
