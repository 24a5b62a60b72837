// Package database stores accounts in SQL: in a SQLite file by default, in
// PostgreSQL when its URL is given. Both have the same schema and get the
// same statements.
//
// A SQLite file may be opened by several processes at once, so that the
// command line works while the server runs.
package database

import (
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

// startTimeout bounds the start, with the wait for another process that starts.
const startTimeout = 30 * time.Second

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
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
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
	setTimeouts(config)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 30))
	if err == nil {
		err = migrate(ctx, db, goose.DialectPostgres, goose.WithSessionLocker(locker))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening PostgreSQL database: %w", err), db.Close())
	}
	return &Store{db: db}, nil
}

// errMalformed has no cause: that quotes parts of the URL, and a URL holds a
// password.
var errMalformed = errors.New("the PostgreSQL URL is malformed")

// setTimeouts sets timeouts that the URL does not have. They bound what no
// context does: the server's work after a client has gone, and connections that
// the pool opens by itself.
func setTimeouts(config *pgx.ConnConfig) {
	const statement = "statement_timeout"
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = timeout
	}
	_, found := config.RuntimeParams[statement]
	if !found && !strings.Contains(config.RuntimeParams["options"], statement) {
		config.RuntimeParams[statement] = strconv.FormatInt(timeout.Milliseconds(), 10)
	}
}

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
		"_busy_timeout": {strconv.FormatInt(busy.Milliseconds(), 10)},
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
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}
