package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// built returns settings for the built Caddy.
func built(t *testing.T) *settings {
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
	return &settings{rounds: 1, seconds: 1, repeats: 1, accounts: 100, caddy: caddy, dir: t.TempDir()}
}

// The sides give the answers that are to be measured, and no process is
// left behind.
func TestFleet(t *testing.T) {
	t.Parallel()
	f, err := startFleet(t.Context(), built(t), true)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		caddy *caddy
		token string
		want  int
	}{
		"bare":              {f.bare, f.gate.open[0], http.StatusOK},
		"twin":              {f.twin, f.gate.open[0], http.StatusOK},
		"gate":              {f.gate.caddy, f.gate.open[keys-1], http.StatusOK},
		"gate, spent":       {f.gate.caddy, f.gate.spent[keys-1], http.StatusTooManyRequests},
		"gate, no token":    {f.gate.caddy, "", http.StatusUnauthorized},
		"synced":            {f.synced.caddy, f.synced.open[0], http.StatusOK},
		"synced, other key": {f.synced.caddy, f.gate.open[0], http.StatusUnauthorized},
	} {
		response, err := test.caddy.call(t.Context(), test.token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s: got %d, want %d", name, response.StatusCode, test.want)
		}
	}
	pids := []int{f.bare.pid(), f.twin.pid(), f.gate.pid(), f.synced.pid()}
	if err := f.stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// A Caddy that refuses its configuration is an error with its words, and
// nobody waits for it.
func TestCaddyThatEnds(t *testing.T) {
	t.Parallel()
	_, err := startCaddy(t.Context(), built(t), caddyConfig{name: "bad", site: "no_such_directive"})
	if err == nil || !strings.Contains(err.Error(), "no_such_directive") {
		t.Errorf("got %v, want what Caddy says", err)
	}
}

// The large store has the accounts, and one call of each is counted:
// measureStart itself makes sure that the second call is the second.
func TestStart(t *testing.T) {
	t.Parallel()
	rows, err := measureStart(t.Context(), built(t))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || len(rows[0].measured) != 1 {
		t.Errorf("got %+v", rows)
	}
}
