package stack

import (
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// FreePorts returns n unused ports. They lie below the ports that Linux gives
// to outgoing connections and for port 0: a program that restarts finds its port
// free, and nothing listens at the port of one that was stopped. No other test
// gets them until this test ends; those of package redistest are above them.
func FreePorts(t testing.TB, n int) []string {
	t.Helper()
	const lowest, highest, tries = 10000, 22000, 1000
	var ports []string
	for range tries {
		if len(ports) == n {
			return ports
		}
		if port := strconv.Itoa(lowest + rand.IntN(highest-lowest)); reserve(t, port) {
			ports = append(ports, port)
		}
	}
	t.Fatalf("found %d free ports, want %d", len(ports), n)
	return nil
}

// reserve locks the file of a port that nothing listens on.
func reserve(t testing.TB, port string) bool {
	t.Helper()
	folder := filepath.Join(os.TempDir(), "tollgate-ports")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(filepath.Join(folder, port))
	if err != nil {
		t.Fatal(err)
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil && listener.Close() == nil {
			t.Cleanup(func() { lock.Close() })
			return true
		}
	}
	lock.Close()
	return false
}
