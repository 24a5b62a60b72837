package token_test

import (
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

// BenchmarkParse parses valid tokens of default and other words, and text that
// is none.
func BenchmarkParse(b *testing.B) {
	body := strings.Repeat("aZ3", 15)[:43]
	for _, bench := range []struct{ name, text string }{
		{"tgk", withChecksum("tgk_" + body)}, {"word", withChecksum("acme_live_" + body)}, {"login", withChecksum("acme_live_login_" + body)},
		{"wrong", "tgk_" + body + "000000"}, {"wrongword", "acme_live_" + body + "000000"},
		{"jwt", strings.Repeat("eyJhbGciOiJ.", 20)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = token.Parse(bench.text)
			}
		})
	}
}
