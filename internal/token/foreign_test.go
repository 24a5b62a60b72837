package token_test

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

func TestIsForeign(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                               false,
		strings.Repeat("a", 19):          false,
		strings.Repeat("a", 20):          true,
		strings.Repeat("a", 256):         true,
		strings.Repeat("a", 257):         false,
		"12|" + strings.Repeat("a", 40):  true,
		"aaaaaaaaaa aaaaaaaaaa":          false,
		"aaaaaaaaaa\x00aaaaaaaaaa":       false,
		"aaaaaaaaaaéaaaaaaaaaa":          false,
		"tgk_" + strings.Repeat("a", 49): false,
		"tgl_" + strings.Repeat("a", 40): false,
	} {
		if got := token.IsForeign(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

// TestSplitPrefix: the hash of a prefixed token depends on both parts, and is
// that of no other token.
func TestSplitPrefix(t *testing.T) {
	t.Parallel()
	rest := token.Hash(sha256.Sum256([]byte("secret|with|more")))
	hash, found := token.SplitPrefix("12|secret|with|more")
	if !found || hash != token.Prefixed("12", rest) {
		t.Errorf("got %x, %v", hash, found)
	}
	if hash == rest || hash == token.Foreign("12|secret|with|more") || hash == token.Prefixed("13", rest) || hash == token.Prefixed("", rest) {
		t.Error("the hash is that of another token")
	}
	if _, found := token.SplitPrefix("secret"); found {
		t.Error("found a prefix in a token without |")
	}
}
