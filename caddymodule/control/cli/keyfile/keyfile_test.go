package keyfile_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/cli/keyfile"
)

var now = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

const (
	one = "secret-of-another-system-one"
	two = "secret-of-another-system-two"
)

func sum(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// show is what a test compares: a key or an error on each line.
func show(keys keyfile.Keys) (list []string) {
	for _, k := range keys.Lines {
		text := fmt.Sprint(k.Number, " ", k.Account, " ", map[string]string{sum(one): "one", sum(two): "two"}[k.SHA256])
		if k.Prefix != "" {
			text += " prefix=" + k.Prefix
		}
		if k.Name != "" {
			text += " name=" + k.Name
		}
		if k.Abilities != nil {
			text += fmt.Sprint(" abilities=", k.Abilities)
		}
		if k.ExpiresAt != nil {
			text += " expires=" + k.ExpiresAt.Format(time.DateTime)
		}
		if k.Plan != nil {
			text += " plan=" + *k.Plan
		}
		list = append(list, text)
	}
	for _, e := range keys.Errors {
		list = append(list, fmt.Sprint(e.Line, " ", e.Message))
	}
	return list
}

// noSecret checks that a text has no part of a token.
func noSecret(t *testing.T, text string) {
	t.Helper()
	for _, part := range []string{"secret", "another", "system", "-one", "-two"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is in %s", part, text)
		}
	}
}

func TestReadKong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"consumers": {`_format_version: "3.0"
_transform: true
services: [{name: x, url: "http://localhost"}]
consumers:
- username: shop
  keyauth_credentials:
  - key: ` + one + `
    ttl: 3600
    tags: [a, b]
  - key: '` + two + `'
- username: other
  custom_id: "42"
  keyauth_credentials:
  - {key: ` + one + `}
- username: without
`, []string{"7 shop one expires=2026-11-20 10:00:00", "10 shop two", "14 42 one"}},
		"JSON with tabs": {"\t{\n\t\n\t\"_format_version\": \"3.0\",\n\t\"consumers\": [\n\t\t{\"username\": \"shop\", \"keyauth_credentials\": [\n\t\t\t{\"key\": \"" + one + "\"}]}]}", []string{"6 shop one"}},
		"the list at the top": {`_format_version: 3.0
keyauth_credentials:
- consumer: shop
  key: ` + one + `
- consumer: 0c5cd1f4-6d6b-4bd8-9f0a-a2b1c0c1c8ab
  key: ` + two + `
- consumer: gone
  key: ` + two + `
consumers:
- username: shop
- id: 0c5cd1f4-6d6b-4bd8-9f0a-a2b1c0c1c8ab
  username: other
  custom_id: c-2
`, []string{"3 shop one", "5 c-2 two", "7 the file has no consumer with the username or id that the credential names"}},
		"anchors": {`_format_version: "3.0"
consumers:
- username: shop
  keyauth_credentials: [&k {key: ` + one + `}]
- username: other
  keyauth_credentials: [*k]
`, []string{"4 shop one", "6 other one"}},
		"mistakes": {`_format_version: "3.0"
consumers:
- username: shop
  keyauth_credentials:
  - key: nineteen-characters
  - key: "{vault://env/a-long-name-of-a-key}"
  - tags: [a]
  - key: [` + one + `]
  - ` + one + `
  - key: ` + one + `
    ttl: ` + two + `
  - key: ` + one + `
    ttl: -1
  - key: ` + two + `
  - key: ` + one + `
    ttl: 9999999999
- id: 0c5cd1f4-6d6b-4bd8-9f0a-a2b1c0c1c8ab
  keyauth_credentials:
  - key: ` + one + `
- [` + one + `]
`, []string{
			"14 shop two",
			"5 the token has fewer than 20 characters",
			"6 " + isPlaceholder,
			"7 the credential has no key",
			"8 the consumer or the credential is not in Kong's form: username, custom_id, consumer and key are texts, ttl is a number",
			"9 the consumer or the credential is not in Kong's form: username, custom_id, consumer and key are texts, ttl is a number",
			"10 the consumer or the credential is not in Kong's form: username, custom_id, consumer and key are texts, ttl is a number",
			"12 the ttl is not a number of seconds from 0 to 3153600000",
			"15 the ttl is not a number of seconds from 0 to 3153600000",
			"19 the consumer has neither custom_id nor username",
			"20 the consumer or the credential is not in Kong's form: username, custom_id, consumer and key are texts, ttl is a number",
		}},
	} {
		keys, err := keyfile.ReadKong(strings.NewReader(c.file), keyfile.Options{Now: now})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, show(keys)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadKongInvalid: a file that is not Kong's is refused, and the error
// shows nothing of it.
func TestReadKongInvalid(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"nothing":           "",
		"another file":      "consumers: []",
		"a text":            one,
		"broken":            "_format_version: '3'\nconsumers:\n  - key: " + one + "\n " + two + ":\n- x: [",
		"an unknown anchor": "_format_version: '3'\nconsumers:\n- keyauth_credentials: [{key: *" + one + "}]",
		"another form":      "_format_version: '3'\nconsumers: " + one,
		"tabs":              "_format_version: '3'\nconsumers:\n\t- " + one,
	} {
		keys, err := keyfile.ReadKong(strings.NewReader(file), keyfile.Options{Now: now})
		if err == nil {
			t.Errorf("%s: got %+v", name, show(keys))
			continue
		}
		noSecret(t, err.Error())
	}
}

// TestReadLinesErrors: an error shows nothing of its line.
func TestReadLinesErrors(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		one, `"` + one + `"`, `{"` + one + `":1}`, `{"account":"a","token":"` + one, `{"account":"a","token":"` + one + `","token":"` + one + `"}`,
		`{"` + one + `":1,"` + one + `":2}`, `{"account":"a","expires_at":"` + one + `","sha256":""}`, `{"account":"a","token":{"` + one + `":1}}`,
		`{"account":"a","token":"` + one + ` "}`, `{"account":"a","token":"` + one + `","sha256":"` + two + `"}`, "{\"account\":\"a\",\"token\":\"" + one + "\xff\"}",
		`{"account":"a","token":"` + strings.Repeat(one, 10) + `"}`,
	} {
		keys, err := keyfile.ReadLines(strings.NewReader(line), keyfile.Options{})
		if err != nil || len(keys.Errors) != 1 || len(keys.Lines) != 0 {
			t.Errorf("%s: got %v, %v", line, show(keys), err)
			continue
		}
		noSecret(t, keys.Errors[0].Message)
	}
	for line, want := range map[string]string{
		`[]`: "the line is not a JSON object", `{"account":7}`: "account is not a text", `{"abilities":"a"}`: "abilities is not a list of texts",
		`{"abilities":[7]}`: "abilities is not a list of texts", `{"expires_at":"2020-01-01"}`: "expires_at is not a time such as 2027-01-01T00:00:00Z",
		`{"expires_at":7}`: "expires_at is not a time such as 2027-01-01T00:00:00Z", `{"sha256":[]}`: "sha256 is not a text",
	} {
		keys, err := keyfile.ReadLines(strings.NewReader(line), keyfile.Options{})
		if got := show(keys); err != nil || len(got) != 1 || got[0] != "1 "+want {
			t.Errorf("%s: got %q, %v, want %s", line, got, err, want)
		}
	}
	broken := errors.New("broken")
	if _, err := keyfile.ReadLines(iotest.ErrReader(broken), keyfile.Options{}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// sanctum makes a table of Laravel Sanctum at a path.
func sanctum(t *testing.T, path string, rows ...[]any) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "new.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE TABLE personal_access_tokens (id integer primary key autoincrement, tokenable_type varchar, tokenable_id, name text, token varchar, abilities text, expires_at datetime, created_at datetime)`)
	for _, row := range rows {
		run(`INSERT INTO personal_access_tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, row...)
	}
	run(`VACUUM INTO ?`, path)
}

const (
	user  = `App\Models\User`
	admin = `App\Models\Admin`
)

func TestReadSanctum(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a ? b%20.sqlite")
	sanctum(t, path,
		[]any{3, user, 7, "auth_token", sum(one), `["*"]`, nil, nil},
		[]any{4, user, 7, "auth_token", sum(two), `["convert","usage"]`, "2026-12-01 08:30:00", nil},
		[]any{5, user, "01H8-ulid", strings.Repeat("n", 70), sum(one), `["convert","*"]`, nil, nil},
		[]any{6, user, "01H8-ulid", strings.Repeat("n", 64), sum(one), `[]`, nil, nil},
		[]any{7, user, 7, "auth_token 4", sum(one), `["*"]`, nil, nil},
		[]any{8, user, 7, "", sum(one), `["*"]`, nil, nil},
		[]any{13, user, 8, "caf\u00e9", sum(one), `["*"]`, nil, nil},
		[]any{14, user, 8, "cafe\u0301", sum(one), `["*"]`, nil, nil},
		[]any{9, user, 7, "x", sum(one), nil, nil, nil},
		[]any{10, user, 7, "x", sum(one), `{"a":1}`, nil, nil},
		[]any{11, user, 7, "x", sum(one), `["*"]`, "tomorrow", nil},
		[]any{12, admin, 7, "x", sum(one), `["*"]`, nil, nil},
	)
	options := keyfile.Options{Plan: "starter", AccountPrefix: "u_"}
	if keys, err := keyfile.ReadSanctum(t.Context(), path, options); err == nil || !strings.Contains(err.Error(), "select one of "+admin+", "+user+" with --type") {
		t.Errorf("two types: got %v, %v", show(keys), err)
	}
	options.Type = "App.Models.User"
	if keys, err := keyfile.ReadSanctum(t.Context(), path, options); err == nil || !strings.Contains(err.Error(), "the table has "+admin+", "+user) {
		t.Errorf("a type that no row has: got %v, %v", show(keys), err)
	}
	options.Type = user
	keys, err := keyfile.ReadSanctum(t.Context(), path, options)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"3 u_7 one prefix=3 name=auth_token plan=starter",
		"4 u_7 two prefix=4 name=auth_token 4 abilities=[convert usage] expires=2026-12-01 08:30:00 plan=starter",
		"5 u_01H8-ulid one prefix=5 name=" + strings.Repeat("n", 64) + " plan=starter",
		"6 u_01H8-ulid one prefix=6 name=" + strings.Repeat("n", 62) + " 6 abilities=[] plan=starter",
		"7 u_7 one prefix=7 name=auth_token 4 7 plan=starter",
		"8 u_7 one prefix=8 plan=starter",
		"13 u_8 one prefix=13 name=caf\u00e9 plan=starter",
		"14 u_8 one prefix=14 name=caf\u00e9 14 plan=starter",
		"9 abilities is not a JSON list of texts",
		"10 abilities is not a JSON list of texts",
		"11 expires_at is not a time such as 2026-11-20 09:00:00",
	}, show(keys)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReadSanctumMissing: a file that is not there is an error, and is not
// made.
func TestReadSanctumMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "database.sqlite")
	if keys, err := keyfile.ReadSanctum(t.Context(), path, keyfile.Options{}); err == nil {
		t.Errorf("got %v, want an error", show(keys))
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
}

// TestReadSanctumTypes reads values that SQLite stores and Laravel does not
// write: each is a mistake of its row.
func TestReadSanctumTypes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "database.sqlite")
	sanctum(t, path,
		[]any{1, nil, 7, "ci", sum(one), `["*"]`, nil, nil},
		[]any{2, user, nil, "ci", sum(one), `["*"]`, nil, nil},
		[]any{3, user, 7, nil, sum(one), `["*"]`, nil, nil},
		[]any{4, user, 7, "ci", nil, `["*"]`, nil, nil},
		[]any{5, user, 7.5, "ci", sum(one), `["*"]`, nil, nil},
		[]any{6, user, []byte{0xff, 0}, "ci", sum(one), `["*"]`, nil, nil},
		[]any{7, user, 7, []byte("ci"), sum(one), `["*"]`, nil, nil},
		[]any{8, user, 7, "ci", sum(one), []byte(`["*"]`), nil, nil},
		[]any{9, user, 7, "ci", sum(one), 1, nil, nil},
		[]any{10, user, 7, "ci", sum(one), `["*"]`, 2461375.5, nil},
		[]any{11, user, 7, "ci", sum(one), `["*"]`, 1795000000, nil},
		[]any{12, user, 7, "ci", sum(one), `["*"]`, []byte{0xff}, nil},
		[]any{13, user, "7", 5, sum(two), `["*"]`, nil, []byte{0xff}},
	)
	keys, err := keyfile.ReadSanctum(t.Context(), path, keyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const expiry, abilities = "expires_at is not a time such as 2026-11-20 09:00:00", "abilities is not a JSON list of texts"
	if diff := cmp.Diff([]string{
		"13 7 two prefix=13 name=5",
		"1 tokenable_type is neither a text nor an integer",
		"2 tokenable_id is neither a text nor an integer",
		"3 name is neither a text nor an integer",
		"4 token is neither a text nor an integer",
		"5 tokenable_id is neither a text nor an integer",
		"6 tokenable_id is neither a text nor an integer",
		"7 name is neither a text nor an integer",
		"8 " + abilities, "9 " + abilities, "10 " + expiry, "11 " + expiry, "12 " + expiry,
	}, show(keys)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReadSanctumAge: with the setting expiration of Sanctum, a token expires
// at that age or at expires_at, whichever is earlier.
func TestReadSanctumAge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "database.sqlite")
	const created = "2026-11-01 08:00:00"
	sanctum(t, path,
		[]any{1, user, 7, "a", sum(one), `["*"]`, nil, created},
		[]any{2, user, 7, "b", sum(one), `["*"]`, "2026-11-20 08:00:00", created},
		[]any{3, user, 7, "c", sum(one), `["*"]`, "2026-12-20 08:00:00", created},
		[]any{4, user, 7, "d", sum(one), `["*"]`, nil, nil},
		[]any{5, user, 7, "e", sum(one), `["*"]`, "2026-12-20 08:00:00", 1795000000},
	)
	keys, err := keyfile.ReadSanctum(t.Context(), path, keyfile.Options{ExpiresAfter: 30 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"1 7 one prefix=1 name=a expires=2026-12-01 08:00:00",
		"2 7 one prefix=2 name=b expires=2026-11-20 08:00:00",
		"3 7 one prefix=3 name=c expires=2026-12-01 08:00:00",
		"4 created_at is not a time such as 2026-11-20 09:00:00",
		"5 created_at is not a time such as 2026-11-20 09:00:00",
	}, show(keys)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReadSanctumColumns: before version 3, Sanctum has no expires_at.
func TestReadSanctumColumns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "database.sqlite")
	sanctum(t, path, []any{1, user, 7, "a", sum(one), `["*"]`, "2026-11-20 08:00:00", "2026-11-01 08:00:00"})
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("ALTER TABLE personal_access_tokens DROP COLUMN expires_at"); err != nil {
		t.Fatal(err)
	}
	keys, err := keyfile.ReadSanctum(t.Context(), path, keyfile.Options{})
	if diff := cmp.Diff([]string{"1 7 one prefix=1 name=a"}, show(keys)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
