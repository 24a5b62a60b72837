package badgerstore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/badgerstore"
)

// TestDocumentedFormat: the manual for operators names the current format.
func TestDocumentedFormat(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		if !strings.Contains(line, "store has format") {
			continue
		}
		found++
		if want := `want "` + badgerstore.Version + `"`; !strings.Contains(line, want) {
			t.Errorf("the line lacks %s: %s", want, line)
		}
	}
	if found == 0 {
		t.Error("the message is not documented")
	}
}
