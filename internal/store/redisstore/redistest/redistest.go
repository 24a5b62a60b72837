// Package redistest runs real Redis servers on loopback for tests and
// measurements: a single server, Sentinel, Cluster, and a proxy that breaks
// connections. Start functions are for tests, and stop at the end of the test
// what they started.
package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience is the longest wait for a condition. Machines of CI are slow, and
// only a failing test waits that long.
const patience = 30 * time.Second

// Launch starts a redis-server that stores no data on disk and waits until it
// answers. config has further lines of its configuration, such as
// "appendonly yes" or "requirepass x". The server keeps its files and its log
// in dir, which is created if it does not exist. The caller must call Kill or
// Stop.
func Launch(dir string, config ...string) (*Server, error) {
	return launch(setup{dir: dir, secret: newSecret(), scheme: "redis", lines: func(*port) ([]string, error) {
		return dataLines(config), nil
	}})
}

// Start launches a server for a test.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	need(t)
	server, err := Launch(t.TempDir(), config...)
	if err != nil {
		t.Fatal(err)
	}
	end(t, server)
	return server
}

// StartUnix launches a server for a test whose clients use a Unix socket. It
// has a TCP port too, for Do.
func StartUnix(t testing.TB, config ...string) *Server {
	t.Helper()
	need(t)
	// Not t.TempDir: the path of a Unix socket may have 107 bytes.
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(dir, "redis.sock")
	server, err := Launch(dir, append([]string{"unixsocket " + socket, "unixsocketperm 700"}, config...)...)
	if err != nil {
		t.Fatal(err)
	}
	server.scheme, server.address = "unix", socket
	end(t, server)
	return server
}

// need ends a test without redis-server: it fails in CI and is skipped
// elsewhere.
func need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "true" {
			t.Skip("redis-server is not installed (on Debian: apt-get install redis-server)")
		}
		t.Fatalf("the test needs redis-server: %v", err)
	}
}

// end kills servers at the end of a test. A failed test shows the end of
// their logs.
func end(t testing.TB, servers ...*Server) {
	t.Cleanup(func() {
		for _, server := range servers {
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Logf("log of the server at %s:\n%s", server.Addr(), server.logTail(0))
			}
		}
	})
}

// await waits until a condition returns no error.
func await(what string, condition func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := condition()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: %w", what, err)
		}
	}
}
