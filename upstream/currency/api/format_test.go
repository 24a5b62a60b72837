package api

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
	"testing"
)

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
