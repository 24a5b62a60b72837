package api

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// TestKept: of a long answer, the digest and the length are of the whole, and
// the memory is bounded.
func TestKept(t *testing.T) {
	t.Parallel()
	k := newKept().(*kept)
	part := bytes.Repeat([]byte("x"), 1000)
	whole := bytes.Repeat(part, 1000)
	for range 1000 {
		if n, err := k.Write(part); n != len(part) || err != nil {
			t.Fatalf("got %d (%v)", n, err)
		}
	}
	want := sha256.Sum256(whole)
	if k.length != len(whole) || !bytes.Equal(k.digest.Sum(nil), want[:]) {
		t.Errorf("the length is %d, the digest %x, want %d, %x", k.length, k.digest.Sum(nil), len(whole), want)
	}
	if got := k.text.Len(); got > longestKept {
		t.Errorf("%d bytes are kept", got)
	}
}
