package token_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

func TestKindNames(t *testing.T) {
	t.Parallel()
	for want, name := range map[token.Kind]string{token.Key: "key", token.Login: "login"} {
		if got := want.String(); got != name {
			t.Errorf("name of kind %d: got %q, want %q", want, got, name)
		}
	}
}
