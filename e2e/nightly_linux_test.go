package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
)

// nightly runs packaging/backup as the timer does, with the built programs.
type nightly struct {
	t       *testing.T
	s       *stack.Stack
	dir     string // of the copies
	program string // the script
	nights  int    // since the first day of 2026
}

func newNightly(t *testing.T, s *stack.Stack) *nightly {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(stack.Root(), "packaging", "backup"))
	must(t, err)
	const installed, clock = "/usr/lib/tollgate/", "now=$(date -u +"
	if strings.Count(string(script), installed) != 2 || strings.Count(string(script), clock) != 1 {
		t.Fatal("the test no longer understands the script")
	}
	text := strings.ReplaceAll(string(script), installed, filepath.Join(stack.Root(), "bin")+"/")
	n := &nightly{t: t, s: s, dir: t.TempDir(), program: filepath.Join(t.TempDir(), "backup")}
	must(t, os.WriteFile(n.program, []byte(strings.Replace(text, clock, "now=$(date -u -d \"2026-01-01 $NIGHT days\" +", 1)), 0o700))
	return n
}

// run is one night. It returns what the script prints, and its error.
func (n *nightly) run() (string, error) {
	n.nights++
	return n.s.Shell(fmt.Sprintf("NIGHT=%d exec sh %s %s 2>&1", n.nights, n.program, n.dir))
}

// copies returns the names of the copies of a kind: accounts or gate.
func (n *nightly) copies(kind string) []string {
	n.t.Helper()
	files, err := filepath.Glob(filepath.Join(n.dir, kind+"-*"))
	must(n.t, err)
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	return files
}

// fail runs nights in which the copy of the accounts fails with a message. No
// copy of them is deleted, and the gate has its newest backups.
func (n *nightly) fail(nights int, message string) {
	n.t.Helper()
	before := n.copies("accounts")
	for range nights {
		if out, err := n.run(); err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(out, message) || !strings.Contains(out, "Backed up the state of") {
			n.t.Fatalf("got %v, want exit status 1, %q and a backup of the gate:\n%s", err, message, out)
		}
	}
	if got := n.copies("accounts"); !slices.Equal(got, before) {
		n.t.Errorf("after %d nights in which the copy failed, the accounts have %q, want %q", nights, got, before)
	}
}

func (n *nightly) succeed(nights int) {
	n.t.Helper()
	for range nights {
		if out, err := n.run(); err != nil {
			n.t.Fatalf("got %v:\n%s", err, out)
		}
	}
}

// copied is when the last copy of the accounts was complete, in the metrics.
func (n *nightly) copied() string {
	n.t.Helper()
	response, err := http.Get("http://" + n.s.Listen() + "/metrics")
	must(n.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(n.t, err)
	return regexp.MustCompile(`\ntollgate_accounts_backup_last_success_timestamp_seconds (.*)\n`).FindStringSubmatch(string(text))[1]
}

// TestNightlyBackup: the newest copies of each kind remain, also while those of
// the other kind fail, or are older.
func TestNightlyBackup(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	account := newAccount(t, s, "night@example.com", "starter")
	n := newNightly(t, s)
	if got := n.copied(); got != "0" {
		t.Errorf("before the first copy, the metrics say %s, want 0", got)
	}
	n.succeed(3)
	if got := n.copied(); got == "0" {
		t.Error("after the first copy, the metrics say that none was made")
	}
	good := n.copies("accounts")

	database := filepath.Join(s.Data, "upstream", "accounts.db")
	s.StopUpstream()
	intact, err := os.ReadFile(database)
	must(t, err)
	damaged := slices.Clone(intact)
	clear(damaged[4096:])
	must(t, os.WriteFile(database, damaged, 0o600))
	n.fail(15, "accounts.db")
	must(t, os.WriteFile(database, nil, 0o600))
	n.fail(1, "accounts.db")
	must(t, os.Remove(database))
	n.fail(14, database+" is missing, but "+n.dir+" has copies of it")
	s.Set("TOLLGATE_DATABASE", "postgres://tollgate@127.0.0.1/tollgate")
	n.fail(1, "pg_dump ")
	s.Set("TOLLGATE_DATABASE", "")
	if got := n.copies("gate"); len(got) != 14 {
		t.Errorf("the gate has %d backups, want 14", len(got))
	}

	// The newest copy opens as the database.
	newest, err := os.ReadFile(filepath.Join(n.dir, good[len(good)-1]))
	must(t, err)
	must(t, os.WriteFile(database, newest, 0o600))
	s.StartUpstream()
	if out := s.Upstream("", "account", "list"); !strings.Contains(out, account) {
		t.Errorf("the restored database has the accounts\n%s", out)
	}
	// Empty files are not counted, nor is a part of a copy.
	for _, name := range []string{"accounts-2026-12-30T000000Z.db", "accounts-2026-12-31T000000Z.db", "accounts-2027-01-01T000000Z.db", "gate-2026-12-31T000000Z.backup"} {
		must(t, os.WriteFile(filepath.Join(n.dir, name), nil, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(n.dir, "accounts-2026-12-31T000000Z.db.1.part"), intact, 0o600))
	n.succeed(12)
	if got := n.copies("accounts"); len(got) != 14+4 || got[0] != good[1] {
		t.Errorf("the accounts have %q, want the newest 14, and four other files", got)
	}
	if got := n.copies("gate"); len(got) != 14+1 {
		t.Errorf("the gate has %q, want the newest 14, and an empty file", got)
	}
	// The clock is set back: the new copy remains.
	n.nights = -100
	n.succeed(1)
	if got := n.copies("accounts"); len(got) != 14+4 || got[0] != "accounts-2025-09-24T000000Z.db" {
		t.Errorf("the accounts have %q, want the new copy, the newest 13, and four other files", got)
	}
}

// TestNightlyBackupFails: the disk of the copies is full, or the gate is away.
func TestNightlyBackupFails(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	newAccount(t, s, "night@example.com", "starter")
	n := newNightly(t, s)
	disk := storetest.NewSmallDisk(t)
	n.dir = disk.Dir
	n.succeed(2)
	before := append(n.copies("accounts"), n.copies("gate")...)
	empty := disk.Fill(t, 0)
	if out, err := n.run(); err == nil {
		t.Errorf("on a full disk, the backup succeeds:\n%s", out)
	}
	empty()
	if got := append(n.copies("accounts"), n.copies("gate")...); !slices.Equal(got, before) {
		t.Errorf("after a full disk, there is %q, want %q", got, before)
	}
	s.StopCaddy()
	if out, err := n.run(); err == nil {
		t.Errorf("without a gate, the backup succeeds:\n%s", out)
	}
	if accounts, gates := n.copies("accounts"), n.copies("gate"); len(accounts) != 3 || len(gates) != 2 {
		t.Errorf("without a gate, there is %q and %q, want a new copy of the accounts", accounts, gates)
	}
}

// TestNightlyBackupWithoutAccounts: another service has no accounts.
func TestNightlyBackupWithoutAccounts(t *testing.T) {
	t.Parallel()
	s := stack.StartGate(t, stack.Shipped(t))
	n := newNightly(t, s)
	out, err := n.run()
	if err != nil || strings.Contains(out, "accounts.db") || len(n.copies("accounts")) != 0 || len(n.copies("gate")) != 1 {
		t.Errorf("got %v, and %q:\n%s", err, append(n.copies("accounts"), n.copies("gate")...), out)
	}
}

// TestNightlyBackupOfANewDatabase: copies of a lost database remain while a new
// one has no accounts.
func TestNightlyBackupOfANewDatabase(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	newAccount(t, s, "night@example.com", "starter")
	n := newNightly(t, s)
	n.succeed(1)
	good := n.copies("accounts")[0]
	s.StopUpstream()
	files, err := filepath.Glob(filepath.Join(s.Data, "upstream", "accounts.db*"))
	must(t, err)
	for _, file := range files {
		must(t, os.Remove(file))
	}
	s.Upstream("", "account", "list") // makes the new one
	n.succeed(15)
	if copies := n.copies("accounts"); len(copies) != 16 || copies[0] != good {
		t.Errorf("got the copies %q, want %s among 16", copies, good)
	}
}
