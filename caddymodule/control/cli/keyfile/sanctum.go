package keyfile

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// sanctumRow is a row of personal_access_tokens. SQLite stores NULL and values
// of any type in any column: a text is not valid if its column has neither a
// text nor an integer.
type sanctumRow struct {
	number                                        int64
	id, tokenableType, user, name, sum, abilities sql.NullString
	expiresAt, createdAt                          sql.NullString
}

var (
	errSanctumAbilities = errors.New("abilities is not a JSON list of texts")
	errSanctumExpiry    = errors.New("expires_at is not a time such as 2026-11-20 09:00:00")
	errSanctumCreation  = errors.New("created_at is not a time such as 2026-11-20 09:00:00")
)

// ReadSanctum reads the table personal_access_tokens of Laravel Sanctum from a
// SQLite database. It does not change the database. The account is
// tokenable_id, and the number of a line is the row id. It refuses a table with several
// tokenable_types unless the options select one: their ids are of different
// accounts.
func ReadSanctum(ctx context.Context, path string, o Options) (keys Keys, err error) {
	source := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return keys, fmt.Errorf("opening %s: %w", path, err)
	}
	defer db.Close()
	rows, err := sanctumRows(ctx, db)
	if err != nil {
		return keys, fmt.Errorf("reading personal_access_tokens of %s: %w", path, err)
	}
	types := typesOf(rows)
	switch {
	case o.Type != "" && !slices.Contains(types, o.Type):
		return keys, fmt.Errorf("no row has the tokenable_type %q: the table has %s", o.Type, cmp.Or(strings.Join(types, ", "), "none"))
	case o.Type != "":
		rows = slices.DeleteFunc(rows, func(r sanctumRow) bool { return r.tokenableType.String != o.Type })
	case len(types) > 1:
		return keys, fmt.Errorf("the tokens are of several types, whose ids are of different accounts: select one of %s with --type", strings.Join(types, ", "))
	}
	used := names{}
	for _, row := range rows {
		line, err := row.line(o.ExpiresAfter)
		if err == nil {
			line.Name = used.unique(line.Account, row.name.String, line.Prefix)
		}
		keys.add(o, int(row.number), line, err)
	}
	return keys, nil
}

// typesOf returns the tokenable_types of a table, sorted.
func typesOf(rows []sanctumRow) (types []string) {
	for _, row := range rows {
		if row.tokenableType.Valid {
			types = append(types, row.tokenableType.String)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

func sanctumRows(ctx context.Context, db *sql.DB) (list []sanctumRow, err error) {
	values := []string{"rowid"}
	for _, column := range []string{"id", "tokenable_type", "tokenable_id", "name", "token", "abilities"} {
		values = append(values, fmt.Sprintf("CASE WHEN typeof(%[1]s) IN ('text', 'integer') THEN CAST(%[1]s AS TEXT) END", column))
	}
	for _, column := range []string{"expires_at", "created_at"} {
		var columns int
		// Before version 3, Sanctum has no expires_at.
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('personal_access_tokens') WHERE name = ?", column).Scan(&columns); err != nil {
			return nil, err
		} else if columns == 0 {
			column = "NULL"
		}
		values = append(values, "CAST("+column+" AS TEXT)")
	}
	rows, err := db.QueryContext(ctx, "SELECT "+strings.Join(values, ", ")+" FROM personal_access_tokens ORDER BY rowid")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r sanctumRow
		if err := rows.Scan(&r.number, &r.id, &r.tokenableType, &r.user, &r.name, &r.sum, &r.abilities, &r.expiresAt, &r.createdAt); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// line returns the key of a row. Its token is the id, "|" and the text whose
// hash is in the table.
func (r *sanctumRow) line(expiresAfter time.Duration) (line api.KeyLine, err error) {
	for _, column := range []struct {
		name  string
		value sql.NullString
	}{{"id", r.id}, {"tokenable_type", r.tokenableType}, {"tokenable_id", r.user}, {"name", r.name}, {"token", r.sum}} {
		if !column.value.Valid {
			return line, fmt.Errorf("%s is neither a text nor an integer", column.name)
		}
	}
	line = api.KeyLine{Account: r.user.String, Prefix: r.id.String, SHA256: r.sum.String}
	if err := json.Unmarshal([]byte(r.abilities.String), &line.Abilities); err != nil || line.Abilities == nil {
		return line, errSanctumAbilities
	}
	if slices.Contains(line.Abilities, "*") {
		line.Abilities = nil
	}
	line.ExpiresAt, err = r.expiry(expiresAfter)
	return line, err
}

// expiry returns when the key of a row expires, or nil for never: at
// expires_at, or at an age that the application allows if that is earlier.
func (r *sanctumRow) expiry(maxAge time.Duration) (ends *time.Time, err error) {
	if r.expiresAt.Valid {
		at, err := time.Parse(time.DateTime, r.expiresAt.String)
		if err != nil {
			return nil, errSanctumExpiry
		}
		ends = &at
	}
	if maxAge == 0 {
		return ends, nil
	}
	created, err := time.Parse(time.DateTime, r.createdAt.String)
	if err != nil {
		return nil, errSanctumCreation
	}
	if at := created.Add(maxAge); ends == nil || at.Before(*ends) {
		ends = &at
	}
	return ends, nil
}
