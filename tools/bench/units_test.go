package main

import "testing"

// H and W are measured with a token and a record.
func TestUnits(t *testing.T) {
	t.Parallel()
	b := &bench{dir: t.TempDir()}
	w, err := b.writeTime()
	if h := hashTime(); err != nil || h <= 0 || w <= 0 {
		t.Errorf("got H %v and W %v, %v", h, w, err)
	}
	if token, _, err := newKey(); err != nil || len(token.Reveal()) != tokenLength {
		t.Errorf("a token has %d bytes, %v, want %d", len(token.Reveal()), err, tokenLength)
	}
	if _, err := (&bench{dir: t.TempDir() + "/missing"}).writeTime(); err == nil {
		t.Error("got no error without a directory")
	}
}
