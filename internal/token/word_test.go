package token_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

func TestWordCheck(t *testing.T) {
	t.Parallel()
	for word, valid := range map[string]bool{
		"": true, "tg": true, "tgk": true, "login": true, "acme_live": true, "acme_login_v2": true, "0_": true, strings.Repeat("a", 24): true,
		"a": false, strings.Repeat("a", 25): false, strings.Repeat("a", 1000): false, "Acme": false, "acme-live": false, "acmé": false, "ac me": false,
		"tgl": false, "acme_login": false, "_login": false,
	} {
		if err := token.Word(word).Check(); (err == nil) != valid {
			t.Errorf("%q: got %v, want valid %t", word, err, valid)
		}
	}
}

// TestIsOwn: a text with a default prefix is one of a gate, valid or not. A text
// with another word can be a token of another system, unless it is valid.
func TestIsOwn(t *testing.T) {
	t.Parallel()
	valid := withChecksum("acme_live_" + strings.Repeat("a", 43))
	for text, want := range map[string]bool{
		"tgk_": true, "tgl_x": true, valid: true, withChecksum("x9_login_" + strings.Repeat("a", 43)): true,
		"": false, "tgk": false, "TGK_": false, valid[:len(valid)-1]: false, valid + "0": false, valid[:len(valid)-1] + "!": false,
		"acme_live_" + strings.Repeat("a", 49): false,
	} {
		if got := token.IsOwn(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}

// FuzzFind compares Find with a regular expression.
func FuzzFind(f *testing.F) {
	long := strings.Repeat("a1Z", 17)
	for _, text := range []string{
		"", "tgk_", "/TGL_abc", "tgx_abc", "acme_live_" + long, "/a/acme_" + long[:34] + "/b", "/a/acme_" + long[:33], "a_" + long, "_" + long, "__" + long, long + "_" + long,
		"acme__" + long, "x_" + long + "_tgk_", "acme_" + long[:20] + "-" + long, "\xffacme_" + long, "xtgk_", "tg_k_",
	} {
		f.Add(text)
	}
	// The longest word is first by itself: no match begins inside of another one.
	first := regexp.MustCompile(`(?i:tg[kl]_)|[0-9A-Za-z_]{2,}_[0-9A-Za-z]{34}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, want := token.Find(text), -1
		if at := first.FindStringIndex(text); at != nil {
			want = at[0]
		}
		// A default prefix inside of another word is what ends the search first.
		if got != want && (got < want || !strings.EqualFold(text[got:got+2], "tg")) {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	})
}
