package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// onDisk is the shipped Caddyfile with the store in another directory.
func onDisk(t *testing.T, dir string) string {
	return stack.Shipped(t,
		`store badger "{$TOLLGATE_DATA:./data}/gate"`, "store badger "+dir+" {\n\t\t\treserve 16MiB\n\t\t}")
}

// TestStopOnReadOnlyDisk stops Caddy while the disk of the store is
// read-only. The exit code and the log report it, and the store opens after
// the repair.
func TestStopOnReadOnlyDisk(t *testing.T) {
	stack.SkipInOneProcess(t, "it is about the store of the gate")
	disk := storetest.NewExt4(t)
	s := stack.Start(t, onDisk(t, filepath.Join(disk.Dir, "gate")))
	id := newAccount(t, s, "disk@example.com", "starter")
	token := newKey(t, s, id, "ci").Token
	call := func() {
		t.Helper()
		if response, text := s.Call("GET", "/api/rates/EUR?symbols=USD", token, nil); response.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", response.StatusCode, text)
		}
	}
	call()
	if code := s.StopCaddy(); code != caddy.ExitCodeSuccess {
		t.Errorf("exit code %d with a working disk, want %d", code, caddy.ExitCodeSuccess)
	}
	s.StartCaddy()
	call()
	disk.Abort(t)
	if code := s.StopCaddy(); code != caddy.ExitCodeFailedQuit {
		t.Errorf("exit code %d, want %d", code, caddy.ExitCodeFailedQuit)
	}
	if log := s.Log(); !strings.Contains(log, "exiting with a store that cannot be closed") || !strings.Contains(log, "read-only file system") {
		t.Error("the log does not contain the reason")
	}
	disk.Repair(t)
	s.StartCaddy()
	call()
}

// TestStopWithoutDisk stops Caddy while the directory of the store is
// missing.
func TestStopWithoutDisk(t *testing.T) {
	stack.SkipInOneProcess(t, "it is about the store of the gate")
	dir := filepath.Join(t.TempDir(), "gate")
	s := stack.Start(t, onDisk(t, dir))
	newAccount(t, s, "gone@example.com", "starter")
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if code := s.StopCaddy(); code != caddy.ExitCodeFailedQuit {
		t.Errorf("exit code %d, want %d", code, caddy.ExitCodeFailedQuit)
	}
	if !strings.Contains(s.Log(), "exiting with a store that cannot be closed") {
		t.Error("the log does not contain the reason")
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	s.StartCaddy()
}
