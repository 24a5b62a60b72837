package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestFormsAreBounded: a form has at most 16 KiB.
func TestFormsAreBounded(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]error{maxForm: nil, maxForm + 1: errForm} {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("email="+strings.Repeat("x", size-len("email="))))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if err := readForm(httptest.NewRecorder(), r); !errors.Is(err, want) {
			t.Errorf("%d bytes: got %v, want %v", size, err, want)
		}
	}
	if maxForm != 16<<10 {
		t.Errorf("docs/guarantees.md says 16 KiB, it is %d", maxForm)
	}
}

func FuzzLocalPath(f *testing.F) {
	for _, seed := range []string{"/usage", "/settings/keys/abc", "//evil.example", `/\evil.example`, "/usage/../..//x", "/settings/%2e%2e", "/usage?days=90&done=revoked", "/usage?a=//evil.example#\r\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := localPath(next)
		path, query, _ := strings.Cut(got, "?")
		asked, _, _ := strings.Cut(next, "?")
		if got != usagePath && path != asked || !strings.HasPrefix(path, "/usage") && !strings.HasPrefix(path, "/settings") {
			t.Errorf("localPath(%q) is %q", next, got)
		}
		if strings.Contains(path, "//") || strings.ContainsFunc(path, isForeign) || strings.ContainsAny(query, "/\\#\"<> \r\n\t") {
			t.Errorf("localPath(%q) is %q", next, got)
		}
	})
}
