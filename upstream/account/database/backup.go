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
