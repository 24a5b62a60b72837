package database

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/terminal"
)

// CopyFile copies the SQLite database of a directory to an empty file, while
// other processes use it. The copy is the state of one instant, and opens as a
// database. It returns how many accounts are in the copy.
func CopyFile(ctx context.Context, directory, path string) (accounts int, err error) {
	source := filepath.Join(directory, fileName)
	if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("no database of accounts in %s", directory)
	}
	if path, err = filepath.Abs(path); err != nil { // as openSQLite needs it
		return 0, err
	}
	from, err := openSQLite(source, timeout)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	// VACUUM copies some damaged databases without an error, and loses rows.
	found := ""
	if err := from.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&found); err != nil {
		return 0, fmt.Errorf("checking %s: %w", source, err)
	}
	if found != "ok" {
		return 0, fmt.Errorf("%s is damaged: %s", source, found)
	}
	if _, err := from.ExecContext(ctx, "VACUUM INTO $1", path); err != nil {
		return 0, fmt.Errorf("copying %s: %w", source, err)
	}
	to, err := openSQLite(path, timeout)
	if err != nil {
		return 0, err
	}
	defer to.Close()
	if err := to.QueryRowContext(ctx, "SELECT COUNT(*) FROM accounts").Scan(&accounts); err != nil {
		return 0, fmt.Errorf("reading the copy of %s: %w", source, err)
	}
	return accounts, nil
}

// copiedName is the file that was modified when the last copy was complete.
const copiedName = fileName + ".copied"

// NoteCopy notes that a copy of the database of a directory is complete now.
func NoteCopy(directory string) error {
	// Another user may have made the file before.
	return terminal.ReplaceFile(filepath.Join(directory, copiedName), func(*os.File) error { return nil })
}

// CopiedAt returns when the last copy was complete: a zero time if none was.
func CopiedAt(directory string) time.Time {
	info, err := os.Stat(filepath.Join(directory, copiedName))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// dumped are the parameters of a URL that pg_dump has too. A password is not
// among them.
var dumped = []string{"host", "port", "user", "dbname", "sslmode", "sslrootcert", "sslcert", "sslkey", "passfile"}

// DumpCommand returns the command of PostgreSQL that copies the database at a
// URL to a file. It has no password.
func DumpCommand(address, path string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", errMalformed
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	maps.DeleteFunc(query, func(name string, _ []string) bool { return !slices.Contains(dumped, name) })
	u.RawQuery, u.Fragment = query.Encode(), ""
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	return "pg_dump --format=custom --file=" + quote(path) + " " + quote(u.String()), nil
}
