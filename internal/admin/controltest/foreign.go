package controltest

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// ForeignToken is a token that another system made.
func ForeignToken(n int) string { return fmt.Sprintf("other-system-token-%08d", n) }

// Sum is the sha256 of a line.
func Sum(token string) string { return hex.EncodeToString(hashBytes(token)) }

func hashBytes(text string) []byte {
	hash := token.Foreign(text)
	return hash[:]
}

// KeyResults imports keys, and returns the results of their lines.
func KeyResults(t *testing.T, c *client.Client, dryRun bool, lines ...string) (list []api.LineResult) {
	t.Helper()
	err := c.ImportKeys(t.Context(), strings.NewReader(strings.Join(lines, "\n")), dryRun, func(r api.LineResult) error {
		list = append(list, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != len(lines) {
		t.Fatalf("got %d results for %d lines", len(list), len(lines))
	}
	return list
}

// KeyLine returns a line of an import of keys.
func KeyLine(account, token, more string) string {
	return fmt.Sprintf(`{"account":%q,"sha256":%q%s}`, account, Sum(token), more)
}
