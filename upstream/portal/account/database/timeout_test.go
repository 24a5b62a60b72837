package database

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/caddy-tollgate/tollgate/upstream/portal/account/accounttest/postgrestest"
)

// TestConnectTimeout: a URL can have another timeout than ours, but not none.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{"": 5 * time.Second, "connect_timeout=30": 30 * time.Second, "connect_timeout=0": 5 * time.Second} {
		config, err := pgx.ParseConfig("postgres://u@127.0.0.1/x?" + query)
		if err != nil {
			t.Fatal(err)
		}
		if timeouts(config); config.ConnectTimeout != want {
			t.Errorf("%q: got %v, want %v", query, config.ConnectTimeout, want)
		}
	}
}

// TestStatementTimeout: the server has the timeout of a URL or ours. PgBouncer
// refuses it as a startup parameter, which would also be the value after RESET;
// only a URL with options sends one.
func TestStatementTimeout(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	for query, want := range map[string][2]string{
		"":                                    {"5s", "0"},
		"statement_timeout=7s":                {"7s", "0"},
		"options=-c%20statement_timeout%3D9s": {"9s", "9000"},
	} {
		s, err := OpenURL(t.Context(), address+"&"+query)
		if err != nil {
			t.Fatal(err)
		}
		var got [2]string
		err = s.db.QueryRowContext(t.Context(), "SELECT current_setting(name), reset_val FROM pg_settings WHERE name = 'statement_timeout'").Scan(&got[0], &got[1])
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", query, got, err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTimeoutOfMigration: a statement that changes the schema may take minutes,
// also if the URL allows other statements less. It waits for locks only 5 s.
func TestTimeoutOfMigration(t *testing.T) {
	t.Parallel()
	address := postgrestest.URL(t)
	config, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	db := openPool(config, nil)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), `
CREATE TABLE seen (statement TEXT, waiting TEXT);
CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO seen VALUES (current_setting('statement_timeout'), current_setting('lock_timeout'));
END $$;
CREATE EVENT TRIGGER note ON ddl_command_start EXECUTE FUNCTION note()`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := OpenURL(t.Context(), address+"&statement_timeout=4s")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var statement, waiting string
	err = db.QueryRowContext(t.Context(), "SELECT DISTINCT statement, waiting FROM seen").Scan(&statement, &waiting)
	if err != nil || statement != "5min" || waiting != "5s" {
		t.Errorf("got %q and %q, %v", statement, waiting, err)
	}
}

// TestPages: more rows than one statement reads or deletes.
func TestPages(t *testing.T) {
	t.Parallel()
	s, err := OpenFile(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const many = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < $1) "
	for _, statement := range []string{
		"INSERT INTO accounts (" + columns + ") " + many + "SELECT 'acc_' || i, i || '@example.com', '', 1, 0, 0, 0, 0, FALSE FROM n",
		"INSERT INTO sessions (" + sessionColumns + ") " + many + "SELECT 'session_' || i, 'acc_' || i, 1, '', 0, 0, 0, FALSE FROM n",
	} {
		if _, err := s.db.ExecContext(t.Context(), statement, pageSize); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.List(t.Context())
	if err != nil || len(all) != pageSize+1 {
		t.Errorf("got %d accounts, %v, want %d", len(all), err, pageSize+1)
	}
	if err := s.Prune(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if left, err := one(t.Context(), s, "counting", scanNumber, "SELECT COUNT(*) FROM sessions"); err != nil || left != 0 {
		t.Errorf("%d sessions are left, %v", left, err)
	}
}
