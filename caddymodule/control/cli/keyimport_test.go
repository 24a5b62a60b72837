package cli_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/controltest"
	"github.com/caddy-tollgate/tollgate/caddymodule/misuse"
	"github.com/caddy-tollgate/tollgate/caddymodule/store/storetest"
	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// foreignShell is a shell whose gate accepts imported keys.
func foreignShell(t *testing.T) *shell {
	t.Helper()
	s := newShell(t)
	config := controltest.Config()
	config.ForeignKeys = true
	s.Configure(t, config)
	return s
}

// importKeys runs an import, and returns its standard output.
func (s *shell) importKeys(t *testing.T, failing bool, args ...string) string {
	t.Helper()
	began := time.Now()
	out, complaints, err := s.run(t, append([]string{"key", "import"}, args...)...)
	if (err != nil) != failing {
		t.Fatalf("%q: %v\n%s", args, err, complaints)
	}
	t.Logf("%q: %s", args, time.Since(began))
	return out
}

// many is how many keys the tests of databases import.
func many() int {
	if storetest.Long() {
		return 100_000
	}
	return 5_000
}

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKeyImportLines imports JSON lines with mistakes: all are named, and the
// others are imported.
func TestKeyImportLines(t *testing.T) {
	t.Parallel()
	s := foreignShell(t)
	s.ok(t, "account", "set", "acc_1", "--plan", "starter")
	sum := sha256.Sum256([]byte("token-of-another-system-2"))
	path := write(t, "keys.jsonl", strings.Join([]string{
		`{"account":"acc_1","token":"token-of-another-system-1","name":"one"}`,
		``,
		`{"account":"acc_1","sha256":"` + hex.EncodeToString(sum[:]) + `","prefix":"7"}`,
		`{"account":"acc_1","token":"8|token-of-another-system-3","prefix":"8"}`,
		`{"account":"acc_1","token":"token-of-another-system-4","prefix":"9"}`,
		`{"account":"acc_1","token":"nineteen-characters"}`,
		`{"account":"acc_1","token":"8|nineteen-characters","prefix":"8"}`,
		`{"account":"acc_unknown","token":"token-of-another-system-5"}`,
		`{"account":"acc_1"}`,
		`{"account":"acc_1","token":"token-of-another-system-5","sha256":"` + strings.Repeat("0", 64) + `"}`,
		`{"account":"acc_1","token":"token-of another-system-5"}`,
		`{"account":"acc_1","token":"tgk_` + strings.Repeat("0", 49) + `"}`,
		`{"account":"acc_1","secret-of-another-system":1}`,
		`{"account":"acc_1","token":"token-of-another-system-5"`,
		`{"account":"acc_1","token":["token-of-another-system-5"]}`,
		`{"account":"acc_1","token":"token-of-another-system-5","plan":"gold"}`,
		`{"account":"acc_2","token":"token-of-another-system-1","plan":"starter"}`,
	}, "\n"))
	const errors = `[` +
		`{"line":6,"message":"the token has fewer than 20 characters"},` +
		`{"line":7,"message":"the token has fewer than 20 characters"},` +
		`{"line":8,"message":"There is no such account. Set plan to create it."},` +
		`{"line":9,"message":"the line has neither token nor sha256"},` +
		`{"line":10,"message":"the line has both token and sha256: use one"},` +
		`{"line":11,"message":"the token has more than 256 characters, or one that is not visible ASCII"},` +
		`{"line":12,"message":"the token begins with tgk_ or tgl_: keys of the gate cannot be imported"},` +
		`{"line":13,"message":"the line has an unknown member at byte 19; allowed: account, plan, name, abilities, expires_at, token, sha256, prefix"},` +
		`{"line":14,"message":"the line is not valid JSON from byte 55 on"},` +
		`{"line":15,"message":"token is not a text"},` +
		`{"line":16,"message":"Unknown plan \"gold\". Plans: free, starter, business."},` +
		`{"line":17,"message":"The token is a live key of another account."}]}` + "\n"
	for _, round := range []struct{ flag, want string }{
		{"--dry-run", `{"imported":4,"skipped":0,"errors":` + errors}, {"--dry-run", `{"imported":4,"skipped":0,"errors":` + errors},
		{"--dry-run=false", `{"imported":4,"skipped":0,"errors":` + errors}, {"--dry-run=false", `{"imported":0,"skipped":4,"errors":` + errors},
	} {
		if diff := cmp.Diff(round.want, s.importKeys(t, true, path, round.flag)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", round.flag, diff)
		}
	}
	for text, want := range map[string]bool{
		"token-of-another-system-1": true, "7|token-of-another-system-2": true, "token-of-another-system-2": false,
		"8|token-of-another-system-3": true, "9|token-of-another-system-4": true, "token-of-another-system-5": false,
	} {
		if got := s.accepts(t, text); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	if out := s.ok(t, "audit", "--account", "acc_1"); !strings.Contains(out, operator(t)) {
		t.Errorf("the audit log does not name the operator: %s", out)
	}
	fill := write(t, "fill.jsonl", `{"account":"3","token":"token-of-another-system-6"}`)
	if got, want := s.importKeys(t, false, fill, "--plan", "starter", "--account-prefix", "user_"), `{"imported":1,"skipped":0,"errors":[]}`+"\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.ok(t, "account", "show", "user_3")
	if got := s.importKeys(t, false, write(t, "empty", "")); got != `{"imported":0,"skipped":0,"errors":[]}`+"\n" {
		t.Errorf("an empty file: got %s", got)
	}
	s.Configure(t, controltest.Config())
	if out, complaints, err := s.run(t, "key", "import", fill); err == nil || out != "" || !strings.Contains(complaints, "foreign_keys on") {
		t.Errorf("without foreign_keys: got %v, %s%s", err, out, complaints)
	}
}

// accepts tells whether the store knows a token, as the gate looks it up.
func (s *shell) accepts(t *testing.T, text string) bool {
	t.Helper()
	_, err := s.Opened().Grant(t.Context(), token.Foreign(text), s.Now())
	if hash, prefixed := token.SplitPrefix(text); prefixed && err != nil {
		_, err = s.Opened().Grant(t.Context(), hash, s.Now())
	}
	return err == nil
}

// sanctum makes the table of Laravel Sanctum with rows, two for each user, and
// returns the tokens.
func sanctum(t *testing.T, rows int) (path string, tokens []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "database.sqlite")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	run := func(query string, args ...any) {
		t.Helper()
		if _, err := tx.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	run(`CREATE TABLE "personal_access_tokens" ("id" integer primary key autoincrement not null, "tokenable_type" varchar not null, "tokenable_id" integer not null,
		"name" text not null, "token" varchar not null, "abilities" text, "last_used_at" datetime, "expires_at" datetime, "created_at" datetime, "updated_at" datetime)`)
	for n := range rows {
		text := rand.Text() + rand.Text()
		sum := sha256.Sum256([]byte(text))
		run(`INSERT INTO personal_access_tokens (tokenable_type, tokenable_id, name, token, abilities, expires_at, created_at) VALUES ('App\Models\User', ?, 'auth_token', ?, '["*"]', ?, '2026-01-01 00:00:00')`,
			n/2+1, hex.EncodeToString(sum[:]), []any{nil, "2127-01-01 00:00:00"}[n%2])
		tokens = append(tokens, fmt.Sprintf("%d|%s", n+1, text))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return path, tokens
}

// TestKeyImportSanctum imports the table of Laravel Sanctum.
func TestKeyImportSanctum(t *testing.T) {
	t.Parallel()
	s := foreignShell(t)
	path, tokens := sanctum(t, many())
	args := []string{path, "--format", "sanctum", "--plan", "starter", "--account-prefix", "user_"}
	for _, round := range []struct {
		args []string
		want string
	}{
		{append(args, "--dry-run"), fmt.Sprintf(`{"imported":%d,"skipped":0,"errors":[]}`, len(tokens))},
		{args, fmt.Sprintf(`{"imported":%d,"skipped":0,"errors":[]}`, len(tokens))},
		{args, fmt.Sprintf(`{"imported":0,"skipped":%d,"errors":[]}`, len(tokens))},
	} {
		if got := s.importKeys(t, false, round.args...); got != round.want+"\n" {
			t.Fatalf("%q: got %s, want %s", round.args, got, round.want)
		}
	}
	for _, text := range tokens {
		if !s.accepts(t, text) {
			t.Fatal("a token is not accepted")
		}
	}
	out := oneBlank(s.ok(t, "key", "list", "user_7"))
	for _, part := range []string{"auth_token … convert currencies usage 2126-11-20T09:00:00Z never - never", "auth_token 14 … convert currencies usage 2126-11-20T09:00:00Z never - 2127-01-01T00:00:00Z"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	// A revoked key stays revoked.
	rest := strings.TrimPrefix(tokens[6], "7|")
	s.ok(t, "key", "revoke", "user_4", token.IDOf("user_4", token.Prefixed("7", token.Foreign(rest))))
	s.importKeys(t, false, args...)
	if s.accepts(t, tokens[6]) {
		t.Error("an import made a revoked key live again")
	}
	s.hasNothingOf(t, tokens)
}

// TestKeyImportSanctumAge: with --expires-after, tokens that are too old for
// the application do not become keys.
func TestKeyImportSanctumAge(t *testing.T) {
	t.Parallel()
	s := foreignShell(t)
	path, _ := sanctum(t, 2) // of 2026-01-01
	args := []string{path, "--format", "sanctum", "--plan", "starter", "--dry-run", "--expires-after"}
	const expired = `{"imported":0,"skipped":0,"errors":[{"line":1,"message":"The expiry must be in the future."},{"line":2,"message":"The expiry must be in the future."}]}` + "\n"
	if got := s.importKeys(t, true, append(args, "30d")...); got != expired {
		t.Errorf("got %s, want %s", got, expired)
	}
}

// oneBlank joins the columns of a table with one blank.
func oneBlank(out string) string { return strings.Join(strings.Fields(out), " ") }

// TestKeyImportKong imports Kong's declarative file.
func TestKeyImportKong(t *testing.T) {
	t.Parallel()
	s := foreignShell(t)
	var file strings.Builder
	var tokens []string
	file.WriteString("_format_version: \"3.0\"\nconsumers:\n")
	for n := range many() {
		tokens = append(tokens, rand.Text()+rand.Text())
		fmt.Fprintf(&file, "- username: shop-%d\n  keyauth_credentials:\n  - key: %s\n    tags: [a]\n", n, tokens[n])
	}
	wrong := 4*len(tokens) + 4
	file.WriteString("- username: not valid\n  keyauth_credentials:\n  - key: " + rand.Text() + "\n- username: last\n  keyauth_credentials:\n  - key: too-short\n")
	path := write(t, "kong.yaml", file.String())
	errors := fmt.Sprintf(`[{"line":%d,"message":"An account id has `, wrong+1)
	for _, want := range []string{fmt.Sprintf(`{"imported":%d,"skipped":0,"errors":`, len(tokens)), fmt.Sprintf(`{"imported":0,"skipped":%d,"errors":`, len(tokens))} {
		got := s.importKeys(t, true, path, "--format", "kong", "--plan", "business")
		if !strings.HasPrefix(got, want+errors) || !strings.HasSuffix(got, fmt.Sprintf(`{"line":%d,"message":"the token has fewer than 20 characters"}]}`+"\n", wrong+4)) {
			t.Fatalf("got %s, want %s%s", got, want, errors)
		}
	}
	for _, text := range tokens {
		if !s.accepts(t, text) {
			t.Fatal("a token is not accepted")
		}
	}
	s.hasNothingOf(t, tokens)
}

// window is how long the parts of tokens are that must be nowhere.
const window = 10

// hasNothingOf checks that the store's files, the log, the audit log and the
// events have no part of a token.
func (s *shell) hasNothingOf(t *testing.T, tokens []string) {
	t.Helper()
	parts := map[string]bool{}
	for i := 0; i < len(tokens); i += max(1, len(tokens)/500) {
		_, text, _ := strings.Cut("|"+tokens[i], "|")
		text = text[strings.Index(text, "|")+1:]
		for at := range len(text) - window + 1 {
			parts[text[at:at+window]] = true
		}
	}
	search := func(where string, text []byte) {
		t.Helper()
		for at := 0; at+window <= len(text); at++ {
			if last := text[at+window-1]; (last < 'A' || last > 'Z') && (last < '2' || last > '7') {
				at += window - 1 // the tokens are base32, so none includes it
			} else if parts[string(text[at:at+window])] {
				t.Fatalf("%s has a part of a token", where)
			}
		}
	}
	found := false
	err := filepath.WalkDir(s.Directory(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		found = found || bytes.Contains(text, []byte("key.create"))
		search(entry.Name(), bytes.TrimRight(text, "\x00"))
		return err
	})
	if err != nil || !found {
		t.Fatalf("searching the store: found entries %v, %v", found, err)
	}
	gate, err := client.New(s.base, controltest.Secret)
	if err != nil {
		t.Fatal(err)
	}
	for after := ""; ; {
		page, err := gate.Audit(t.Context(), client.AuditFilter{}, after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(page)
		if err != nil {
			t.Fatal(err)
		}
		search("the audit log", text)
		if page.Next == nil {
			break
		}
		after = *page.Next
	}
	text, err := json.Marshal(s.Published())
	if err != nil {
		t.Fatal(err)
	}
	search("an event", text)
	search("the log", []byte(s.Log()))
}

// TestKeyImportMisuse: an invalid command line is told from a failure.
func TestKeyImportMisuse(t *testing.T) {
	t.Parallel()
	s := foreignShell(t)
	path := write(t, "keys.jsonl", "")
	for _, test := range []struct {
		args   []string
		misuse bool
		want   string
	}{
		{nil, true, "missing argument <file>"},
		{[]string{path, "--format", "csv"}, false, "allowed: jsonl, kong, sanctum"},
		{[]string{"-", "--format", "sanctum"}, true, "needs the file"},
		{[]string{path, "--type", "User"}, true, "--format sanctum only"},
		{[]string{path, "--expires-after", "30d"}, true, "--format sanctum only"},
		{[]string{path, "--format", "sanctum", "--expires-after", "0s"}, false, "allowed: durations above 0"},
		{[]string{path, "--format", "sanctum", "--expires-after", "month"}, false, "allowed: durations above 0"},
		{[]string{path, "--plan", ""}, true, "--plan has no value"},
		{[]string{path + ".gone"}, false, "opening the keys"},
		{[]string{path + ".gone", "--format", "sanctum"}, false, "unable to open database file"},
		{[]string{path, "--format", "sanctum"}, false, "no such table"},
		{[]string{path, "--format", "kong"}, false, path + ": the file is not the declarative configuration of Kong: it has no _format_version"},
		{[]string{"-", "--format", "kong"}, false, "standard input: the file is not"},
	} {
		out, complaints, err := s.run(t, append([]string{"key", "import"}, test.args...)...)
		if err == nil || out != "" || misuse.Is(err) != test.misuse || !strings.Contains(complaints, test.want) {
			t.Errorf("%q: got misuse %v, %s, want %v, %s", test.args, misuse.Is(err), complaints, test.misuse, test.want)
		}
	}
	if _, err := os.Stat(path + ".gone"); err == nil {
		t.Error("the import created the file")
	}
}
