package caddymodule_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/feature/backup"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/book"
)

// oneAccount is a store with one account that has counts of so many days.
type oneAccount int

func (counts oneAccount) Dump(_ context.Context, write func(book.Piece) error) error {
	err := write(book.Piece{Document: &book.Account{Exists: true, Account: store.Account{ID: "acc_1", Plan: "free", CreatedAt: time.Unix(1, 0)}}})
	for i := 0; i < int(counts) && err == nil; i++ {
		err = write(book.Piece{Count: &store.StoredCount{Account: "acc_1", Count: store.Count{Day: calendar.Day(i % 20_000), Endpoint: fmt.Sprint("e", i/20_000), Used: 1}}})
	}
	return err
}

// restoring is a process of its own that restores a store with one account to
// the store of these arguments.
func restoring(t *testing.T, from oneAccount, arguments string, flags ...string) (caddy *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	var file bytes.Buffer
	if err := backup.Write(t.Context(), &file, time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), from); err != nil {
		t.Fatal(err)
	}
	path, config := filepath.Join(dir, "gate.backup"), filepath.Join(dir, "Caddyfile")
	for name, text := range map[string]string{path: file.String(), config: fmt.Sprintf("{\n\ttollgate {\n\t\tstore %s\n\t\tsecret %s\n\t\tplan free\n\t}\n}\n", arguments, secret)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	caddy = process(t, append([]string{"tollgate", "restore", path, "--config", config}, flags...)...)
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	caddy.Stdout, caddy.Stderr = stdout, stderr
	return caddy, stdout, stderr
}

// TestRestore runs Caddy as a process of its own. A restore prints what it
// restored, to which store, and what to do next. It prints no lines of the log,
// and no password.
func TestRestore(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	caddy, stdout, stderr := restoring(t, 0, fmt.Sprintf("badger %q", dir+"/gate"))
	if err := caddy.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	want, end := "Restored the state of 2026-11-23T10:00:00Z: 1 account and 0 keys, 1 row in all, ", ". Store: badger:"+dir+"/gate\n"
	if got := stdout.String(); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, end) || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q, want one line that begins with %q and ends with %q", got, want, end)
	}
	lines := strings.Split(stderr.String(), "\n")
	for i, want := range []string{"The file matches the checksum that the backup command wrote into it. The checksum finds damage. It is not a signature: ", "Changes after 2026-11-23T10:00:00Z are undone. "} {
		if len(lines) != 3 || !strings.HasPrefix(lines[i], want) {
			t.Errorf("standard error has %q, want two lines of which one begins with %q", stderr, want)
		}
	}
	caddy, stdout, stderr = restoring(t, 0, fmt.Sprintf("badger %q", dir+"/json"), "--json")
	if err := caddy.Run(); err != nil || !strings.Contains(stdout.String(), `"store":"badger:`+dir+`/json"`) {
		t.Errorf("JSON: got %s, %v\n%s", stdout, err, stderr)
	}
}

// TestInterruptedRestore: a signal ends a restore, and the store says that the
// restore is not finished.
func TestInterruptedRestore(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gate")
	arguments := fmt.Sprintf("badger %q", dir)
	caddy, _, stderr := restoring(t, 100_000, arguments)
	if err := caddy.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first files of the store", func() bool {
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		return err == nil && len(logs) > 0
	})
	if err := caddy.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = caddy.Wait() // its exit status follows
	if status := caddy.ProcessState.ExitCode(); status != 1 || !strings.Contains(stderr.String(), "restoring to badger:"+dir+": terminated signal received") {
		t.Errorf("after a signal: got status %d, %s", status, stderr)
	}
	caddy, _, stderr = restoring(t, 0, arguments)
	if err := caddy.Run(); err == nil || !strings.Contains(stderr.String(), "a restore to it is not finished: ") {
		t.Errorf("restoring again: got %v, %s", err, stderr)
	}
}
