package cli_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/storetest"

	"github.com/google/go-cmp/cmp"

	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
	"github.com/caddy-tollgate/tollgate/internal/token"
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
	out, complaints, err := s.run(t, append([]string{"key", "import"}, args...)...)
	if (err != nil) != failing {
		t.Fatalf("%q: %v\n%s", args, err, complaints)
	}
	return out
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
		`{"account":"acc_1","token":"token-of-another-system-5","token":"token-of-another-system-5"}`,
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
		`{"line":13,"message":"the line has an unknown member, or a value of a wrong type, at byte 19: account, plan, name, token, sha256 and prefix are texts, abilities is a list of texts, expires_at is a time such as 2027-01-01T00:00:00Z"},` +
		`{"line":14,"message":"the line is not valid JSON from byte 55 on"},` +
		`{"line":15,"message":"the line has an unknown member, or a value of a wrong type, at byte 27: account, plan, name, token, sha256 and prefix are texts, abilities is a list of texts, expires_at is a time such as 2027-01-01T00:00:00Z"},` +
		`{"line":16,"message":"the line has a duplicate member"},` +
		`{"line":17,"message":"Unknown plan \"gold\". Plans: free, starter, business."},` +
		`{"line":18,"message":"The token is a live key of another account."}]}` + "\n"
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
	if got := s.importKeys(t, false, write(t, "empty", "")); got != `{"imported":0,"skipped":0,"errors":[]}`+"\n" {
		t.Errorf("an empty file: got %s", got)
	}
	s.Configure(t, controltest.Config())
	if out, complaints, err := s.run(t, "key", "import", path); err == nil || out != "" || !strings.Contains(complaints, "foreign_keys on") {
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

// TestImportErrorsShowNothing: an error shows nothing of its line, because a
// token can be anywhere in it.
func TestImportErrorsShowNothing(t *testing.T) {
	t.Parallel()
	const one, two = "secret-of-another-system-one", "secret-of-another-system-two"
	lines := []string{
		one, `"` + one + `"`, `[]`, `{"` + one + `":1}`, `{"account":"a","token":"` + one, `{"account":"a","token":"` + one + `","token":"` + one + `"}`,
		`{"` + one + `":1,"` + one + `":2}`, `{"account":"a","expires_at":"` + one + `","sha256":""}`, `{"account":"a","token":{"` + one + `":1}}`,
		`{"account":"a","token":"` + one + ` "}`, `{"account":"a","token":"` + one + `","sha256":"` + two + `"}`, "{\"account\":\"a\",\"token\":\"" + one + "\xff\"}",
		`{"account":"a","token":"` + strings.Repeat(one, 10) + `"}`, `{"account":7,"token":"` + one + `"}`, `{"abilities":"` + one + `"}`,
	}
	out := foreignShell(t).importKeys(t, true, write(t, "keys.jsonl", strings.Join(lines, "\n")))
	if n := strings.Count(out, `"line"`); n != len(lines) || strings.Contains(out, "another") || strings.Contains(out, "secret-") {
		t.Errorf("got %d errors, want %d without a token: %s", n, len(lines), out)
	}
}

// placeholders are what files have where a key should be.
var placeholders = []string{
	"$KEY", "$SUPABASE_SERVICE_KEY", "SUPABASE_SERVICE_ROLE_KEY", "$supabaseServiceRoleKey", "${X}", "${STRIPE_SECRET_KEY}", "${STRIPE_SECRET_KEY:-none}", "sk_live_${STRIPE_SECRET_KEY}",
	"$(cat /run/secrets/key)", "$(STRIPE_SECRET_KEY)", "${{ secrets.STRIPE_SECRET_KEY }}", "{{STRIPE_SECRET_KEY}}", "{{ .Values.stripe.key }}", "sk_live_{{STRIPE_SECRET_KEY}}",
	"{vault://env/stripe-secret-key}", "{env.STRIPE_SECRET_KEY}", "{$STRIPE_SECRET_KEY}", "{STRIPE_SECRET_KEY}", "<%= ENV['STRIPE_KEY'] %>",
	"%STRIPE_SECRET_KEY%", "%(STRIPE_SECRET_KEY)s", "%{STRIPE_SECRET_KEY}", "@STRIPE_SECRET_KEY@", "@@STRIPE_SECRET_KEY@@", "#{STRIPE_SECRET_KEY}#",
	"<your-key>", "<insert your own key here>", "[STRIPE_SECRET_KEY_HERE]", "__REPLACE_WITH_KEY__", "__stripe_secret_key__", "__STRIPE-KEY-2__",
	"ENV[STRIPE_SECRET_KEY]", `ENV["STRIPE_SECRET_KEY"]`, "env('STRIPE_SECRET_KEY')", "os.getenv('STRIPE_SECRET_KEY')", "process.env.STRIPE_SECRET_KEY", `os.environ["STRIPE_SECRET_KEY"]`,
	"vault://secret/data/stripe#key", "op://production/stripe/key", "ref+vault://secret/data/stripe", "file:///run/secrets/stripe", "env:STRIPE_SECRET_KEY", "vault:secret/data/stripe#key",
	"arn:aws:secretsmanager:eu-west-1:123456789012:secret:stripe",
	"change-me-change-me-change-me", "CHANGEMECHANGEMECHANGEME", "your-api-key-goes-here", "replace-with-your-token", "INSERT_API_KEY_AND_SAVE",
	"12|$STRIPE_SECRET_KEY", "12|${STRIPE_SECRET_KEY}", "12|<the-token-of-this-user>",
	strings.Repeat("*", 32), strings.Repeat("x", 20), strings.Repeat("0", 64), strings.Repeat("-", 20), "12|" + strings.Repeat("a", 40),
	"sk_live_" + strings.Repeat("0", 24), "sk_live_************4a2b", "00000000-0000-0000-0000-000000000000", "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", "xxxx-xxxx-xxxx-xxxx-xxxx",
}

// file writes a line for each token.
func file(t *testing.T, tokens []string) (path string) {
	t.Helper()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for i, text := range tokens {
		if err := encoder.Encode(map[string]string{"account": fmt.Sprint("acc_", i/50), "plan": "starter", "token": text}); err != nil {
			t.Fatal(err)
		}
	}
	return write(t, "keys.jsonl", lines.String())
}

// Threat: a file has a placeholder where a key should be, such as a variable
// that was not set. Anyone can guess it. Expected: an error with the line that
// shows nothing of the token.
func TestPlaceholdersAreNoKeys(t *testing.T) {
	t.Parallel()
	var got struct{ Errors []struct{ Message string } }
	if err := json.Unmarshal([]byte(foreignShell(t).importKeys(t, true, file(t, placeholders), "--dry-run")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Errors) != len(placeholders) {
		t.Fatalf("got %d errors of %d placeholders: %v", len(got.Errors), len(placeholders), got.Errors)
	}
	const want = "the token is a placeholder, not a key: a reference such as ${NAME}, a template such as <key> or change-me, or one character repeated"
	for i, text := range placeholders {
		if got.Errors[i].Message != want {
			t.Errorf("%s: got %s", text, got.Errors[i].Message)
		}
	}
}

// TestRandomKeysAreNoPlaceholders: keys in the shapes that systems make are
// imported.
func TestRandomKeysAreNoPlaceholders(t *testing.T) {
	t.Parallel()
	const digits, small, large = "0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	of := func(alphabet string) func([]byte) string {
		return func(random []byte) string {
			text := make([]byte, len(random))
			for i, b := range random {
				text[i] = alphabet[int(b)%len(alphabet)]
			}
			return string(text)
		}
	}
	base62 := of(digits + small + large)
	shapes := []func([]byte) string{
		func(b []byte) string { // a UUID
			text := hex.EncodeToString(b[:16])
			return text[:8] + "-" + text[8:12] + "-4" + text[13:16] + "-a" + text[17:20] + "-" + text[20:]
		},
		hex.EncodeToString, func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) },
		base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString, base64.URLEncoding.EncodeToString,
		func(b []byte) string { return "sk_live_" + base62(b) },
		func(b []byte) string { return fmt.Sprintf("%d|%s", int(b[0])+1, base62(append(b, b...))) },
		func(b []byte) string { return "ghp_" + base62(b) },
		func(b []byte) string { return "AIza" + base64.RawURLEncoding.EncodeToString(b) },
		func(b []byte) string { return strings.Repeat("A", 21) + base62(append(b, b...)) + "%3D" },
		func(b []byte) string {
			return "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + base64.RawURLEncoding.EncodeToString(b)
		},
		of(digits), of(large + "234567"),
	}
	// Always the same ones: one of some ten million begins with tgk_ or todo-.
	source := mathrand.New(mathrand.NewPCG(1, 1))
	var tokens []string
	for range 100 {
		for _, shape := range shapes {
			random := make([]byte, 20+source.IntN(28))
			for i := range random {
				random[i] = byte(source.Uint32())
			}
			tokens = append(tokens, shape(random))
		}
	}
	want := fmt.Sprintf(`{"imported":%d,"skipped":0,"errors":[]}`, len(tokens))
	if out, complaints, _ := foreignShell(t).run(t, "key", "import", file(t, tokens), "--dry-run"); out != want+"\n" {
		t.Errorf("got %s%s", out, complaints)
	}
}

// recipes returns the commands below a heading of docs/recipes.md.
func recipes(t *testing.T, heading string) (commands []string) {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "docs", "recipes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, fenced := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		commands = append(commands, fenced[1])
	}
	return commands
}

// sh runs a command in a directory.
func sh(t *testing.T, directory, command string) {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-eu")
	shell.Dir, shell.Stdin = directory, strings.NewReader(command)
	if out, err := shell.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s\n%s", err, out, command)
	}
}

// TestImportRecipes runs the commands of the documentation, and imports the
// lines that they make.
func TestImportRecipes(t *testing.T) {
	t.Parallel()
	commands, s, tokens := recipes(t, "Keys of Kong, Tyk and Laravel Sanctum"), foreignShell(t), []string(nil)
	if len(commands) != 2 {
		t.Fatalf("the page has %d commands", len(commands))
	}
	for range 6 {
		tokens = append(tokens, rand.Text()+rand.Text())
	}
	sum := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

	kong, id := t.TempDir(), "0c5cd1f4-6d6b-4bd8-9f0a-a2b1c0c1c8ab"
	sh(t, kong, fmt.Sprintf(`cat > kong.yaml <<'YAML'
_format_version: "3.0"
consumers:
- username: shop
  id: %s
  keyauth_credentials:
  - {key: %s, ttl: 3600000000}
- {username: other, custom_id: "42", keyauth_credentials: [{key: %s, tags: [a]}]}
- username: without
keyauth_credentials:
- {consumer: %[1]s, key: %[4]s}
- {consumer: gone, key: long-key-without-a-consumer}
- {consumer: shop, key: "{vault://env/a-long-name-of-a-key}"}
YAML
`, id, tokens[0], tokens[1], tokens[2]))
	sh(t, kong, commands[0])
	const kongErrors = `{"imported":3,"skipped":0,"errors":[{"line":4,"message":"An account id has `
	if out := s.importKeys(t, true, filepath.Join(kong, "keys.jsonl")); !strings.HasPrefix(out, kongErrors) || !strings.Contains(out, `{"line":5,"message":"the token is a placeholder`) {
		t.Errorf("Kong: got %s", out)
	}

	sanctum := t.TempDir()
	sh(t, sanctum, fmt.Sprintf(`sqlite3 database.sqlite <<'SQL'
CREATE TABLE "personal_access_tokens" ("id" integer primary key autoincrement not null, "tokenable_type" varchar not null, "tokenable_id" integer not null,
	"name" text not null, "token" varchar not null, "abilities" text, "last_used_at" datetime, "expires_at" datetime, "created_at" datetime, "updated_at" datetime);
INSERT INTO personal_access_tokens (id, tokenable_type, tokenable_id, name, token, abilities, expires_at) VALUES
	(3, 'App\Models\User', 7, 'auth_token', '%s', '["*"]', NULL), (12, 'App\Models\User', 7, 'auth_token', '%s', '["convert"]', '2127-01-01 00:00:00'),
	(13, 'App\Models\User', 8, 'auth_token', '%s', '["*"]', '2126-01-01 00:00:00'), (14, 'App\Models\User', 8, 'auth_token', '%[3]s', NULL, NULL),
	(15, 'App\Models\User', 8, 'auth_token', '%[3]s', '["*"]', 'soon'), (16, 'App\Models\Admin', 9, 'auth_token', '%[3]s', '["*"]', NULL);
SQL
`, sum(tokens[3]), sum(tokens[4]), sum(tokens[5])))
	sh(t, sanctum, commands[1])
	tokens[3], tokens[4] = "3|"+tokens[3], "12|"+tokens[4]
	path := filepath.Join(sanctum, "keys.jsonl")
	const errors = `"errors":[{"line":3,"message":"The expiry must be in the future: choose a later one."},{"line":4,"message":"A key needs at least one ability."},{"line":5,"message":"the line has an unknown member, or a value of a wrong type, `
	if out := s.importKeys(t, true, path); !strings.HasPrefix(out, `{"imported":2,"skipped":0,`+errors) {
		t.Errorf("Sanctum: got %s", out)
	}
	for _, text := range tokens[:5] {
		if !s.accepts(t, text) {
			t.Errorf("a token is not accepted: %s", text)
		}
	}
	for account, want := range map[string][]string{
		"shop": {"imported … convert currencies usage 2126-11-20T09:00:00Z never - 2140-", "imported 2 … convert currencies usage 2126-11-20T09:00:00Z never - never"}, "42": {"imported"},
		"user_7": {"auth_token 3 … convert currencies usage 2126-11-20T09:00:00Z never - never", "auth_token 12 … convert 2126-11-20T09:00:00Z never - 2127-01-01T00:00:00Z"},
	} {
		out := strings.Join(strings.Fields(s.ok(t, "key", "list", account)), " ")
		for _, part := range want {
			if !strings.Contains(out, part) {
				t.Errorf("%s: no %q in %s", account, part, out)
			}
		}
	}
	// A revoked key stays revoked.
	s.ok(t, "key", "revoke", "user_7", token.IDOf("user_7", token.Prefixed("3", token.Foreign(tokens[3][2:]))))
	if out := s.importKeys(t, true, path); !strings.HasPrefix(out, `{"imported":0,"skipped":2,`+errors) || s.accepts(t, tokens[3]) {
		t.Errorf("Sanctum again: got %s", out)
	}
	s.hasNothingOf(t, tokens)
}

// hasNothingOf checks that the store, the log, the audit log and the
// events have no part of a token.
func (s *shell) hasNothingOf(t *testing.T, tokens []string) {
	t.Helper()
	search := func(where string, text []byte) {
		t.Helper()
		for _, token := range tokens {
			for _, part := range []string{token[len(token)-45:][:10], token[len(token)-30:][:10], token[len(token)-10:]} {
				if bytes.Contains(text, []byte(part)) {
					t.Errorf("%s has a part of a token", where)
				}
			}
		}
	}
	for _, line := range storetest.Dump(t, s.Opened().Book) {
		search("the store", []byte(line))
	}
	text, err := json.Marshal(s.Published())
	if err != nil {
		t.Fatal(err)
	}
	search("an event", text)
	search("the log", []byte(s.Log()))
	search("the audit log", []byte(s.ok(t, "audit", "--json")))
}
