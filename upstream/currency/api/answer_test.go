package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"slices"
	"strings"
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

// TestCSVLine: what encoding/csv reads is what was written.
func TestCSVLine(t *testing.T) {
	t.Parallel()
	want := [][]string{{"code", "name"}, {"", `a "b", c`}, {"line\nbreak", "€"}, {"a\rb", "c"}, {" x ", ","}, {"1", ""}}
	var text bytes.Buffer
	var line csvLine
	for _, fields := range want {
		for _, field := range fields {
			line.text(field)
		}
		if err := line.writeTo(&text); err != nil {
			t.Fatal(err)
		}
	}
	if quoted := "\"a\rb\","; !strings.Contains(text.String(), quoted) {
		t.Errorf("no %q in %q: for Python, CR ends a line", quoted, text.String())
	}
	got, err := csv.NewReader(&text).ReadAll()
	if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}
