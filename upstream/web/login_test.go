package web

import (
	"strings"
	"testing"
)

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
