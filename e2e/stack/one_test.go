package stack

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestExampleIsShipped compares the example of one process with the shipped
// Caddyfile, whose tests run with the handler of the example. Only comments
// differ.
func TestExampleIsShipped(t *testing.T) {
	example, err := os.ReadFile(filepath.Join(Root(), "examples", "one-process.Caddyfile"))
	if err != nil {
		t.Fatal(err)
	}
	comments := regexp.MustCompile(`(?m)^[ \t]*#.*\n`)
	got, want := comments.ReplaceAllString(string(example), ""), comments.ReplaceAllString(withoutProxy(t, Shipped(t)), "")
	if got != want {
		t.Errorf("got the example\n%s\nwant\n%s", got, want)
	}
}
