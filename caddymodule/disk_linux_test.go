package caddymodule_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// TestStoreLeftOpen: a store that a configuration lets go of while the disk
// is full cannot be closed. Once there is space it can be used again, and
// knows every call.
func TestStoreLeftOpen(t *testing.T) {
	disk := storetest.NewSmallDisk(t)
	s := start(t, setup{zone: calmZone(), dir: filepath.Join(disk.Dir, "gate")})
	account, bearer := s.account(t, "starter")
	call := func() {
		t.Helper()
		if got := s.get(t, "/api/convert/EUR/1/USD", bearer); got.status != http.StatusOK {
			t.Fatalf("got %d %s", got.status, got.body)
		}
	}
	call()
	empty := disk.Fill(t, 1<<20)
	full := s.dir
	s.dir = filepath.Join(t.TempDir(), "gate")
	if err := s.reload(); err != nil {
		t.Fatalf("leaving the full disk: %v", err)
	}
	s.dir = full
	for range 2 {
		if err := s.reload(); err == nil || !strings.Contains(err.Error(), "cannot be closed") {
			t.Errorf("back on the full disk: got %v", err)
		}
	}
	empty()
	if err := s.reload(); err != nil {
		t.Fatalf("back on the disk: %v", err)
	}
	call()
	if used := s.used(t, account, "convert"); used != 2 {
		t.Errorf("counted %d calls, want 2", used)
	}
}
