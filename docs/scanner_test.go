package docs_test

import (
	"crypto/rand"
	"regexp"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestScannerPattern: the pattern for secret scanners finds the tokens of its word
// and of the default, and not ids and hints.
func TestScannerPattern(t *testing.T) {
	t.Parallel()
	written := regexp.MustCompile("secret scanners: `(.+)`").FindStringSubmatch(read(t, "docs/configuration.md"))
	if written == nil {
		t.Fatal("docs/configuration.md has no pattern for secret scanners")
	}
	pattern := regexp.MustCompile(written[1])
	for _, word := range []token.Word{"", "acme_live"} {
		for _, kind := range []token.Kind{token.Key, token.Login} {
			made, err := word.New(kind, rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			text := made.Reveal()
			if got := pattern.FindString(`{"token":"` + text + `"}`); got != text || pattern.MatchString("x"+text+"x") || pattern.MatchString(made.String()) {
				t.Errorf("it finds %q of %s, or a hint or a longer word", got, text)
			}
		}
	}
	if id, err := token.NewID(rand.Reader); err != nil || pattern.MatchString(id) {
		t.Errorf("it finds the id %s, %v", id, err)
	}
}
