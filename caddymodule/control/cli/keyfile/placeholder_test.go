package keyfile_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/cli/keyfile"
)

const isPlaceholder = "the token is a placeholder, not a key: a reference such as ${NAME}, a template such as <key> or change-me, or one character repeated"

// read reads one token as a line of JSON, and as a credential of Kong. It
// returns the errors.
func read(t interface{ Fatal(...any) }, text string) (found []string) {
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := keyfile.ReadLines(strings.NewReader("\n"+`{"account":"a","token":`+string(quoted)+`}`), keyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kong, err := keyfile.ReadKong(strings.NewReader("_format_version: '3'\nconsumers: [{username: a, keyauth_credentials: [{key: "+string(quoted)+"}]}]"), keyfile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range append(lines.Errors, kong.Errors...) {
		found = append(found, fmt.Sprint(e.Line, " ", e.Message))
	}
	return found
}

// Threat: a file has a placeholder where a key should be, such as a variable
// that was not set. Anyone can guess it. Expected: an error with the line that
// shows nothing of the token, in all formats with tokens.
func TestPlaceholdersAreNoKeys(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
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
	} {
		if got := fmt.Sprint(read(t, text)); got != fmt.Sprintf("[2 %s 2 %[1]s]", isPlaceholder) {
			t.Errorf("%s: got %s", text, got)
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
	shapes := map[string]func([]byte) string{
		"UUID": func(b []byte) string {
			text := hex.EncodeToString(b[:16])
			return text[:8] + "-" + text[8:12] + "-4" + text[13:16] + "-a" + text[17:20] + "-" + text[20:]
		},
		"hex": hex.EncodeToString, "hex in upper case": func(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) },
		"base64": base64.StdEncoding.EncodeToString, "base64url": base64.RawURLEncoding.EncodeToString, "base64url with padding": base64.URLEncoding.EncodeToString,
		"of Stripe":  func(b []byte) string { return "sk_live_" + base62(b) },
		"of Kong":    func(b []byte) string { return base62(append(b, b[:16]...)[:32]) },
		"of Sanctum": func(b []byte) string { return fmt.Sprintf("%d|%s", int(b[0])+1, base62(append(b, b...))) },
		"of GitHub":  func(b []byte) string { return "ghp_" + base62(b) },
		"of Google":  func(b []byte) string { return "AIza" + base64.RawURLEncoding.EncodeToString(b) },
		"of Twitter": func(b []byte) string { return strings.Repeat("A", 21) + base62(append(b, b...)) + "%3D" },
		"JSON Web Token": func(b []byte) string {
			return "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0." + base64.RawURLEncoding.EncodeToString(b)
		},
		"digits": of(digits), "base32": of(large + "234567"),
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A stream of bits that is not random has long runs, so rapid only
			// chooses the seed.
			rapid.Check(t, func(t *rapid.T) {
				text := shape(random(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(20, 48).Draw(t, "length")))
				if got := read(t, text); len(got) != 0 {
					t.Errorf("%s: got %q", text, got)
				}
			})
		})
	}
}

// random returns random bytes of a seed.
func random(seed uint64, length int) []byte {
	source := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, length)
	for i := range text {
		text[i] = byte(source.Uint32())
	}
	return text
}
