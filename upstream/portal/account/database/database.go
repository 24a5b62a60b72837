// Package database stores accounts in SQL: in a SQLite file by default, in
// PostgreSQL when its URL is given. Both have the same schema and get the
// same statements.
//
// A SQLite file may be opened by several processes at once, so that the
// command line works while the server runs.
package database

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// fileName is the SQLite file in its directory.
const fileName = "accounts.db"

const (
	// startTimeout is how long a start waits for another process that starts.
	startTimeout = 30 * time.Second

	// migrateTimeout is how long the changes of the schema may take: each can
	// rewrite a table.
	migrateTimeout = 5 * time.Minute
)

// maxConnections is the size of the pool. Logins read one row each and are
// limited by the hashing of passwords.
const maxConnections = 8

//go:embed migrations/*.sql
var migrations embed.FS

// Store implements account.Store. OpenFile and OpenURL return one.
type Store struct {
	db *sql.DB
}

// OpenFile opens the SQLite database in a directory, and creates both if they
// are missing. Only the owner can read them, since they contain e-mail
// addresses and password hashes.
func OpenFile(ctx context.Context, directory string) (*Store, error) {
	path, err := prepareFile(directory)
	if err != nil {
		return nil, fmt.Errorf("preparing database file: %w", err)
	}
	guard, err := openSQLite(path+".lock", startTimeout)
	if err != nil {
		return nil, err
	}
	defer guard.Close()
	// A writer locks the database for one statement and its commit.
	db, err := openSQLite(path, timeout)
	if err != nil {
		return nil, err
	}
	// Two processes that start at once must not both create the schema. The lock
	// of a transaction ends with its connection; a lock file could stay.
	_, err = guard.ExecContext(ctx, "BEGIN EXCLUSIVE")
	if err == nil {
		err = prepareSQLite(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), db.Close())
	}
	return &Store{db: db}, nil
}

// OpenURL opens a PostgreSQL database by a URL such as
// postgres://user:password@host:5432/name?sslmode=verify-full.
func OpenURL(ctx context.Context, address string) (*Store, error) {
	if !IsURL(address) {
		return nil, errors.New("opening database: the URL does not begin with postgres://")
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", errMalformed)
	}
	settings := timeouts(config)
	if err := migratePostgres(ctx, config); err != nil {
		return nil, fmt.Errorf("opening PostgreSQL database: %w", err)
	}
	return &Store{db: openPool(config, settings)}, nil
}

// errMalformed has no cause: that quotes parts of the URL, and a URL holds a
// password.
var errMalformed = errors.New("the PostgreSQL URL is malformed")

// timeouts sets timeouts that the URL does not have. They bound what no context
// does: connections that the pool opens by itself, and the server's work after a
// client has gone. It returns the settings of each connection. PgBouncer refuses
// statement_timeout as a startup parameter.
func timeouts(config *pgx.ConnConfig) map[string]string {
	const statement = "statement_timeout"
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = timeout
	}
	if strings.Contains(config.RuntimeParams["options"], statement) {
		return nil
	}
	limit := cmp.Or(config.RuntimeParams[statement], milliseconds(timeout))
	delete(config.RuntimeParams, statement)
	return map[string]string{statement: limit}
}

// openPool opens a pool whose connections have these settings.
func openPool(config *pgx.ConnConfig, settings map[string]string) *sql.DB {
	set := func(ctx context.Context, connection *pgx.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
		defer cancel()
		for name, value := range settings {
			if _, err := connection.Exec(ctx, "SELECT set_config($1, $2, false)", name, value); err != nil {
				return fmt.Errorf("setting %s: %w", name, err)
			}
		}
		return nil
	}
	db := stdlib.OpenDB(*config, stdlib.OptionAfterConnect(set))
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	return db
}

// migratePostgres migrates with connections of its own, whose statements may
// take longer. They wait for locks no longer than others: other statements wait
// behind them.
func migratePostgres(ctx context.Context, config *pgx.ConnConfig) error {
	db := openPool(config, map[string]string{
		"statement_timeout": milliseconds(migrateTimeout), "lock_timeout": milliseconds(timeout),
	})
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, uint64(startTimeout.Seconds())))
	if err == nil {
		err = migrate(ctx, db, goose.DialectPostgres, goose.WithSessionLocker(locker))
	}
	return errors.Join(err, db.Close())
}

// milliseconds returns a duration as databases read it.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// IsURL tells whether a text has the form of a URL for OpenURL.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// Close closes the database after all running statements.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("closing database: %w", err)
	}
	return nil
}

// Ping returns an error if the database does not answer.
func (s *Store) Ping(ctx context.Context) error {
	_, err := one(ctx, s, "pinging database", scanNumber, "SELECT 1")
	return err
}

// prepareFile creates the directory and an empty file with their permissions:
// SQLite would use the umask. SQLite's log files inherit the permissions.
func prepareFile(directory string) (string, error) {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(directory, fileName)
	for _, name := range []string{path, path + ".lock"} {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return "", err
		}
		if err := errors.Join(file.Chmod(0o600), file.Close()); err != nil {
			return "", err
		}
	}
	return path, nil
}

// openSQLite opens a file whose connections wait so long for other writers.
func openSQLite(path string, busy time.Duration) (*sql.DB, error) {
	source := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: url.Values{
		"_busy_timeout": {milliseconds(busy)},
		"_foreign_keys": {"on"},
		"_synchronous":  {"FULL"}, // a commit survives a power cut
		"_txlock":       {"immediate"},
		"_defensive":    {"1"},
	}.Encode()}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	return db, nil
}

func prepareSQLite(ctx context.Context, db *sql.DB) error {
	var mode string
	// The mode is kept in the file: readers never wait for a writer.
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return fmt.Errorf("choosing the write-ahead log: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("choosing the write-ahead log: the file system allows only journal mode %q", mode)
	}
	return migrate(ctx, db, goose.DialectSQLite3)
}

func migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect, options ...goose.ProviderOption) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	provider, err := goose.NewProvider(dialect, db, files, append(options, goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return fmt.Errorf("preparing migrations: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}
