package e2e_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/account/accounttest"
	"github.com/caddy-tollgate/tollgate/upstream/account/accounttest/postgrestest"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// manyLogins is the shipped Caddyfile without a limit of logins per client.
func manyLogins(t *testing.T) string {
	t.Helper()
	return stack.Shipped(t, "per_client 5 1m", "per_client 1000 1s")
}

// login logs in as ada@example.com.
func login(s *stack.Stack) (*http.Response, string, error) {
	return s.TryCall("POST", "/api/login", "", strings.NewReader(credentials))
}

// stopDuringLogins stops Caddy as an operator does while people log in. The
// exit code is 0, and each login gets its answer or none.
func stopDuringLogins(t *testing.T, s *stack.Stack) {
	t.Helper()
	stop, first := make(chan struct{}), make(chan struct{}, 1)
	counts := repeat(3, stop, func() (*http.Response, string, error) {
		response, text, err := login(s)
		select {
		case first <- struct{}{}:
		default:
		}
		return response, text, err
	})
	<-first
	if code := s.StopCaddy(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	close(stop)
	answers := counts()
	delete(answers, noAnswer)
	if ok := answers[http.StatusOK]; ok == 0 || len(answers) > 1 {
		t.Errorf("got answers %v, want 200 only", answers)
	}
}

// TestOneProcessPostgres has the accounts of one process in PostgreSQL. They
// survive reloads and restarts.
func TestOneProcessPostgres(t *testing.T) {
	stack.SkipInOneProcess(t, ownForm)
	address := postgrestest.URL(t)
	s := stack.Start(t, manyLogins(t), stack.OneProcess, "TOLLGATE_DATABASE="+address)
	newAccount(t, s, "ada@example.com", "starter")
	stop := make(chan struct{})
	counts := repeat(3, stop, func() (*http.Response, string, error) { return login(s) })
	for range 3 {
		if err := s.Reload(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	answers := counts()
	delete(answers, noAnswer)
	if ok := answers[http.StatusOK]; ok == 0 || len(answers) > 1 {
		t.Errorf("during reloads: got answers %v, want 200 only", answers)
	}
	stopDuringLogins(t, s)
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eventually(t, "the connections to end", func() error {
		var open int
		err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").Scan(&open)
		if err == nil && open > 0 {
			err = fmt.Errorf("%d are open", open)
		}
		return err
	})
	s.StartCaddy()
	if response, text, err := login(s); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("after a restart: got %v %s, want 200", err, text)
	}
	if out := s.Upstream("", "account", "list"); !strings.Contains(out, "ada@example.com") {
		t.Errorf("the list of accounts is %s", out)
	}
	if files, _ := filepath.Glob(filepath.Join(s.Data, "upstream", "accounts.db*")); len(files) > 0 {
		t.Errorf("there are files of SQLite: %v", files)
	}
}

// TestOneProcessMigrates starts one process with an older SQLite database. It
// has the newest schema afterwards, and is closed when the process stops.
func TestOneProcessMigrates(t *testing.T) {
	stack.SkipInOneProcess(t, ownForm)
	data := t.TempDir()
	file := filepath.Join(data, "upstream", "accounts.db")
	newest := older(t, file)
	s := stack.Start(t, manyLogins(t), stack.OneProcess, "TOLLGATE_DATA="+data)
	s.Tollgate("account", "set", "acc_old", "--plan", "starter")
	if response, text, err := login(s); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("got %v %s, want 200", err, text)
	}
	stopDuringLogins(t, s)
	if files, err := filepath.Glob(file + "-*"); err != nil || len(files) > 0 {
		t.Errorf("the database is not closed: %v %v", files, err)
	}
	var version int64
	db := open(t, file)
	if err := db.QueryRowContext(t.Context(), "SELECT max(version_id) FROM goose_db_version").Scan(&version); err != nil || version != newest {
		t.Errorf("got version %d (%v), want %d", version, err, newest)
	}
}

// older makes a SQLite file with the first version of the schema and an
// account. It returns the newest version.
func older(t *testing.T, file string) (newest int64) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	db := open(t, file)
	migrations := os.DirFS(filepath.Join(stack.Root(), "upstream", "account", "database", "migrations"))
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	hash, err := accounttest.Hasher().Hash(t.Context(), "correct horse battery staple")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	_, err = db.ExecContext(t.Context(), "INSERT INTO accounts VALUES ('acc_old', 'ada@example.com', ?, 1, ?, ?)", hash, now, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	sources := provider.ListSources()
	return sources[len(sources)-1].Version
}

func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
