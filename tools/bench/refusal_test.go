package main

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Unknown tokens are well-formed, so that the gate looks for them in the
// store. Malformed tokens are not.
func TestRefusedTokens(t *testing.T) {
	t.Parallel()
	unknown, err := unknownTokens()
	if err != nil {
		t.Fatal(err)
	}
	malformed := malformedTokens(unknown)
	if len(unknown) != keys || len(malformed) != keys {
		t.Fatalf("got %d unknown and %d malformed tokens, want %d", len(unknown), len(malformed), keys)
	}
	for i := range unknown {
		if _, _, err := token.Parse(unknown[i]); err != nil {
			t.Errorf("unknown token: got %v, want a well-formed token", err)
		}
		if _, _, err := token.Parse(malformed[i]); err == nil {
			t.Error("malformed token: got no error")
		}
	}
}
