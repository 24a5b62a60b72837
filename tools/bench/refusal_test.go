package main

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/token"
)

// Unknown tokens pass the check of their form, so that the gate has to
// look for them; malformed ones do not.
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
			t.Errorf("an unknown token is malformed: %v", err)
		}
		if _, _, err := token.Parse(malformed[i]); err == nil {
			t.Errorf("a malformed token is well-formed")
		}
	}
}
