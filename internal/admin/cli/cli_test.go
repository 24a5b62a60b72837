package cli_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestScripts is not parallel because clitest.Run is not.
func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// TestCompletionWithoutGate checks that the shell goes on if a server accepts
// the connection and never answers.
func TestCompletionWithoutGate(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	out, _, err := clitest.RunAt(t.Context(), "http://"+listener.Addr().String(), "", cobra.ShellCompRequestCmd, "account", "show", "")
	if err != nil || out != ":4\n" {
		t.Errorf("got %v, %q", err, out)
	}
}

// TestAuditLimit: --limit reads the end of a long log, and no more.
func TestAuditLimit(t *testing.T) {
	t.Parallel()
	s := clitest.New(t)
	entries := make([]store.Entry, 2500)
	for i := range entries {
		entries[i] = store.Entry{At: s.Now(), ActorKind: "application", Action: api.AccountSet, Account: "acc_1", Target: strconv.Itoa(i)}
	}
	if err := s.Opened().AddEntries(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int]int{1: 1, 1000: 1, 1001: 2, 9999: 3} {
		before := strings.Count(s.URLs(), "\n")
		out, _, err := s.Run(t.Context(), "", "audit", "--json", "--limit", strconv.Itoa(limit))
		var page api.AuditPage
		if requests := strings.Count(s.URLs(), "\n") - before; err != nil || json.Unmarshal([]byte(out), &page) != nil || requests != want {
			t.Errorf("--limit %d: got %v after %d requests, want %d", limit, err, requests, want)
		}
		last := entries[max(0, len(entries)-limit):]
		if !slices.EqualFunc(page.Audit, last, func(got api.AuditEntry, want store.Entry) bool { return got.Target == want.Target }) {
			t.Errorf("--limit %d: got %d entries, want the last %d in order", limit, len(page.Audit), len(last))
		}
	}
}

// TestExportInterrupted interrupts an export while it waits for the gate. It
// leaves no file. It is not parallel, because the signal is for the process.
func TestExportInterrupted(t *testing.T) {
	process, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/tollgate/plans" {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"plans":[],"endpoints":[],"timezone":"UTC","day":"2026-11-20"}`))
			return
		}
		if err := process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	defer gate.Close()
	dir := t.TempDir()
	_, complaints, err := clitest.RunAt(t.Context(), gate.URL, "", "usage", "export", "--month", "2026-11", "--output", filepath.Join(dir, "month.csv"))
	if err == nil || !strings.Contains(complaints, "terminated") {
		t.Errorf("got %v, %s", err, complaints)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("an interrupted export left %v, %v", left, err)
	}
}
