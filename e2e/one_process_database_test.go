package e2e_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
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
	t.Parallel()
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
	must(t, err)
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
