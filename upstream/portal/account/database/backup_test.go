package database_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/database"
)

// emptyFile returns the path of an empty file in a directory.
func emptyFile(t *testing.T, directory, name string) string {
	t.Helper()
	path := filepath.Join(directory, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCopyFile: a copy that is made during writes is the state of one instant,
// and a store opens on it.
func TestCopyFile(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	store, err := database.OpenFile(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mustAdd(t, store, ada())
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	defer writer.Wait()
	defer stop()
	const before = 20 // accounts until the first copy
	filled := make(chan struct{})
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			a := account.Account{ID: fmt.Sprintf("acc_%06d", i), Email: account.Email(fmt.Sprint(i, "@example.com")), CreatedAt: created, UpdatedAt: created}
			session := account.Session{ID: a.ID, AccountID: a.ID, Version: 1, CreatedAt: created, SeenAt: created, ExpiresAt: created}
			if err := errors.Join(store.Add(t.Context(), a, "hash"), store.AddSession(t.Context(), session)); err != nil {
				t.Error(err)
				return
			}
			if i == before {
				close(filled)
			}
		}
	})
	<-filled
	for range 3 {
		to := t.TempDir()
		path := emptyFile(t, to, "accounts.db")
		accounts, err := database.CopyFile(t.Context(), from, path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("got %v, %v, want mode 0600", info, err)
		}
		checkCopy(t, to, accounts)
	}
}

// checkCopy checks a copy of TestCopyFile: it has the first accounts, and the
// session of each but the last, which has none yet or one.
func checkCopy(t *testing.T, directory string, want int) {
	t.Helper()
	copied, err := database.OpenFile(t.Context(), directory)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	all, err := copied.List(t.Context())
	if err != nil || len(all) != want || !slices.ContainsFunc(all, func(c account.Credential) bool { return c.ID == "acc_ada" }) {
		t.Fatalf("got %d accounts, %v, want %d with ada's", len(all), err, want)
	}
	for i := range want - 1 {
		id := fmt.Sprintf("acc_%06d", i)
		if _, err := copied.ByID(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		if sessions, err := copied.Sessions(t.Context(), id); err != nil || len(sessions) != 1 && i < want-2 {
			t.Errorf("%s has %d sessions, %v", id, len(sessions), err)
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(directory, "accounts.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var result string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&result); err != nil || result != "ok" {
		t.Errorf("the integrity check says %q, %v", result, err)
	}
}

// A copy that ends early, and a directory without a database, are errors.
func TestCopyFileFails(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	path := emptyFile(t, t.TempDir(), "copy.db")
	if _, err := database.CopyFile(t.Context(), from, path); err == nil || !strings.Contains(err.Error(), from) {
		t.Errorf("no database: got %v", err)
	}
	if left, err := os.ReadDir(from); err != nil || len(left) != 0 {
		t.Errorf("the directory has %v, %v, want nothing", left, err)
	}
	store, err := database.OpenFile(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := database.CopyFile(ctx, from, path); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}

// TestCopyFileDamaged: SQLite copies some damaged databases without an error, and
// loses rows. Here a page has the content of another one.
func TestCopyFileDamaged(t *testing.T) {
	t.Parallel()
	const pageSize, leafOfTable = 4096, 0x0d
	from := t.TempDir()
	store, err := database.OpenFile(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		a := account.Account{ID: fmt.Sprintf("acc_%06d", i), Email: account.Email(fmt.Sprint(i, "@example.com")), CreatedAt: created, UpdatedAt: created}
		if err := store.Add(t.Context(), a, strings.Repeat("hash", 20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(from, "accounts.db")
	intact, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var leaves []int
	for at := pageSize; at < len(intact); at += pageSize {
		if intact[at] == leafOfTable && bytes.Contains(intact[at:at+pageSize], []byte("hash")) {
			leaves = append(leaves, at)
		}
	}
	if len(leaves) < 3 {
		t.Fatalf("the table has %d pages; the test no longer understands the file", len(leaves))
	}
	for i, at := range leaves {
		damaged, other := slices.Clone(intact), leaves[(i+1)%len(leaves)]
		copy(damaged[at:at+pageSize], intact[other:])
		if err := os.WriteFile(file, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if accounts, err := database.CopyFile(t.Context(), from, emptyFile(t, t.TempDir(), "copy.db")); err == nil {
			t.Errorf("page %d has the content of page %d: the copy has %d of 100 accounts, and no error", at/pageSize, other/pageSize, accounts)
		}
	}
}

// Threat: the command that is printed has the password.
func TestDumpCommand(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"postgres://u:hunter2@db.example:5433/accounts?sslmode=verify-full&sslpassword=hunter2&password=hunter2&pool_max_conns=4": "'postgres://u@db.example:5433/accounts?sslmode=verify-full'",
		"postgresql:///accounts?host=/run/postgresql#hunter2":                                                                     "'postgresql:///accounts?host=%2Frun%2Fpostgresql'",
		"postgres://db.example/it's": `'postgres://db.example/it'\''s'`,
	} {
		got, err := database.DumpCommand(address, "a file's.dump")
		if want := `pg_dump --format=custom --file='a file'\''s.dump' ` + want; err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", address, got, err, want)
		}
	}
	if got, err := database.DumpCommand("postgres://u:%hunter2@x/y", "file"); err == nil || strings.Contains(got+err.Error(), "hunter2") {
		t.Errorf("malformed: got %s, %v", got, err)
	}
}

// TestDump: the command that is printed works.
func TestDump(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	store, err := database.OpenURL(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	mustAdd(t, store, ada())
	path := filepath.Join(t.TempDir(), "accounts.dump")
	command, err := database.DumpCommand(address, path)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	content, err := exec.CommandContext(t.Context(), "pg_restore", "--data-only", "--file=-", path).Output()
	if err != nil || !strings.Contains(string(content), "ada@example.com") {
		t.Errorf("the dump has %s, %v", content, err)
	}
}
