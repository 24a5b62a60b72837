package caddymodule_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/backup"
	"github.com/caddy-tollgate/tollgate/caddymodule/store"
)

// oneAccount is a store with one account.
type oneAccount struct{}

func (oneAccount) Export(_ context.Context, write func(store.Item) error) error {
	return write(store.Item{Account: &store.Account{ID: "acc_1", Plan: "free", CreatedAt: time.Unix(1, 0)}})
}

// TestRestore runs Caddy as a process of its own. A restore prints what it
// restored and what to do next, and no lines of the log.
func TestRestore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var file bytes.Buffer
	if err := backup.Write(t.Context(), &file, time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), oneAccount{}); err != nil {
		t.Fatal(err)
	}
	path, config := filepath.Join(dir, "gate.backup"), filepath.Join(dir, "Caddyfile")
	for name, text := range map[string]string{path: file.String(), config: fmt.Sprintf("{\n\ttollgate {\n\t\tstore badger %q\n\t\tsecret %s\n\t\tplan free\n\t}\n}\n", filepath.Join(dir, "gate"), secret)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	caddy := process(t, "tollgate", "restore", path, "--config", config)
	caddy.Stdout, caddy.Stderr = &stdout, &stderr
	if err := caddy.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if want := "Restored the state of 2026-11-23T10:00:00Z: 1 account and 0 keys, 1 row in all, "; !strings.HasPrefix(stdout.String(), want) || strings.Count(stdout.String(), "\n") != 1 {
		t.Errorf("got %q, want one line that begins with %q", &stdout, want)
	}
	if want := "Changes after 2026-11-23T10:00:00Z are undone. "; !strings.HasPrefix(stderr.String(), want) || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("standard error has %q, want one line that begins with %q", &stderr, want)
	}
}
