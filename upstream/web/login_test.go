package web

import (
	"strings"
	"testing"
)

func FuzzLocalPath(f *testing.F) {
	for _, seed := range []string{"/usage", "/settings/keys/abc", "//evil.example", `/\evil.example`, "/usage/../..//x", "/settings/%2e%2e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := localPath(next)
		if got != usagePath && got != next || !strings.HasPrefix(got, "/usage") && !strings.HasPrefix(got, "/settings") {
			t.Errorf("localPath(%q) is %q", next, got)
		}
		if strings.Contains(got, "//") || strings.ContainsFunc(got, isForeign) {
			t.Errorf("localPath(%q) is %q", next, got)
		}
	})
}
