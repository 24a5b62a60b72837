package keyfile

import (
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

// sanctumRow is a row of personal_access_tokens.
type sanctumRow struct {
	number                             int64
	id, tokenableType, user, name, sum string
	abilities, expiresAt               sql.NullString
}

var (
	errSanctumAbilities = errors.New("abilities is not a JSON list of texts")
	errSanctumExpiry    = errors.New("expires_at is not a time such as 2026-11-20 09:00:00")
)

// ReadSanctum reads the table personal_access_tokens of Laravel Sanctum from a
// SQLite database, which it does not change. The account is tokenable_id, and
// the number of a line is the row id. It refuses a table with several
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
	if o.Type != "" {
		rows = slices.DeleteFunc(rows, func(r sanctumRow) bool { return r.tokenableType != o.Type })
	}
	var types []string
	for _, row := range rows {
		types = append(types, row.tokenableType)
	}
	slices.Sort(types)
	if types = slices.Compact(types); len(types) > 1 {
		return keys, fmt.Errorf("the tokens are of several types, whose ids are of different accounts: select one of %s with --type", strings.Join(types, ", "))
	}
	used := names{}
	for _, row := range rows {
		line, err := row.line()
		if err == nil {
			line.Name = used.unique(row.user, row.name, row.id)
		}
		keys.add(o, int(row.number), line, err)
	}
	return keys, nil
}

func sanctumRows(ctx context.Context, db *sql.DB) (list []sanctumRow, err error) {
	expiry := "CAST(expires_at AS TEXT)"
	var columns int
	// Before version 3, Sanctum has no such column.
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('personal_access_tokens') WHERE name = 'expires_at'").Scan(&columns); err != nil {
		return nil, err
	} else if columns == 0 {
		expiry = "NULL"
	}
	rows, err := db.QueryContext(ctx, `SELECT rowid, CAST(id AS TEXT), CAST(tokenable_type AS TEXT), CAST(tokenable_id AS TEXT), CAST(name AS TEXT),
		CAST(token AS TEXT), CAST(abilities AS TEXT), `+expiry+` FROM personal_access_tokens ORDER BY rowid`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var r sanctumRow
		if err := rows.Scan(&r.number, &r.id, &r.tokenableType, &r.user, &r.name, &r.sum, &r.abilities, &r.expiresAt); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, rows.Err()
}

// line returns the key of a row. Its token is the id, "|" and the text whose
// hash is in the table.
func (r *sanctumRow) line() (line api.KeyLine, err error) {
	line = api.KeyLine{Account: r.user, Prefix: r.id, SHA256: r.sum}
	if err := json.Unmarshal([]byte(r.abilities.String), &line.Abilities); err != nil || line.Abilities == nil {
		return line, errSanctumAbilities
	}
	if slices.Contains(line.Abilities, "*") {
		line.Abilities = nil
	}
	if r.expiresAt.Valid {
		at, err := time.Parse(time.DateTime, r.expiresAt.String)
		if err != nil {
			return line, errSanctumExpiry
		}
		line.ExpiresAt = &at
	}
	return line, nil
}
