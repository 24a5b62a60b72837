package token_test

import (
	"bytes"
	"math/big"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/caddy-tollgate/tollgate/internal/token"
)

func TestNewID(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^key_[0-9A-Za-z]{16}$`)
	rapid.Check(t, func(t *rapid.T) {
		entropy := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "entropy")
		got, err := token.NewID(bytes.NewReader(entropy))
		if err != nil {
			t.Fatal(err)
		}
		if want := "key_" + reference(new(big.Int).SetBytes(entropy), 16); got != want || !shape.MatchString(got) {
			t.Fatalf("id of %x: got %q, want %q", entropy, got, want)
		}
	})
}

// TestIDOf: an imported token has the same id each time in one account, in the
// form of all ids. Other tokens and other accounts have other ids.
func TestIDOf(t *testing.T) {
	t.Parallel()
	shape := regexp.MustCompile(`^key_[0-9A-Za-z]{16}$`)
	one, other := token.Foreign("one"), token.Foreign("other")
	got := token.IDOf("acc_1", one)
	if got != token.IDOf("acc_1", one) || !shape.MatchString(got) {
		t.Errorf("got %q and %q", got, token.IDOf("acc_1", one))
	}
	if got == token.IDOf("acc_1", other) || got == token.IDOf("acc_2", one) {
		t.Errorf("two keys have the id %q", got)
	}
}
