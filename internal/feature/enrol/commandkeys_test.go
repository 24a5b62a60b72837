package enrol_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/admin/cli/clitest"
	"github.com/caddy-tollgate/tollgate/internal/admin/controltest"
)

func TestScripts(t *testing.T) { clitest.Run(t, "testdata/script") }

// importKeys imports a file with a gate that accepts keys of other systems. It
// returns what the command prints.
func importKeys(t *testing.T, text string, failing bool) string {
	t.Helper()
	s, config := clitest.New(t), controltest.Config()
	config.ForeignKeys = true
	s.Configure(t, config)
	out, complaints, err := s.Run(t.Context(), text, "key", "import", "-", "--dry-run")
	if (err != nil) != failing {
		t.Fatalf("got %v\n%s", err, complaints)
	}
	return out
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
	out := importKeys(t, strings.Join(lines, "\n"), true)
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

// file has a line for each token.
func file(t *testing.T, tokens []string) string {
	t.Helper()
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for i, text := range tokens {
		if err := encoder.Encode(map[string]string{"account": fmt.Sprint("acc_", i/50), "plan": "starter", "token": text}); err != nil {
			t.Fatal(err)
		}
	}
	return lines.String()
}

// Threat: a file has a placeholder where a key should be, such as a variable
// that was not set. Anyone can guess it. Expected: an error with the line that
// shows nothing of the token.
func TestPlaceholdersAreNoKeys(t *testing.T) {
	t.Parallel()
	var got struct{ Errors []struct{ Message string } }
	if err := json.Unmarshal([]byte(importKeys(t, file(t, placeholders), true)), &got); err != nil {
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
	source := rand.New(rand.NewPCG(1, 1))
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
	if out := importKeys(t, file(t, tokens), false); out != want+"\n" {
		t.Errorf("got %s", out)
	}
}
