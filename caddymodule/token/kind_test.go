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
		if got, err := token.ParseKind(name); err != nil || got != want {
			t.Errorf("ParseKind(%q): got %v, %v; want %v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "Key", "LOGIN", "key ", "kind(0)", "session"} {
		if got, err := token.ParseKind(name); err == nil || got != 0 {
			t.Errorf("ParseKind(%q): got %v, %v; want an error", name, got, err)
		}
	}
}
