package main

import (
	"testing"
)

func TestPublicURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://localhost:8080":    "http://localhost:8080",
		"https://example.com/":     "https://example.com",
		"example.com":              "https://example.com",
		"example.com:8443":         "https://example.com:8443",
		"example.com:80":           "http://example.com:80",
		":8080":                    "http://localhost:8080",
		"a.example, b.example":     "https://a.example",
		"http://[::1]:8080":        "http://[::1]:8080",
		"":                         "",
		"ftp://example.com":        "",
		"http://":                  "",
		"https://exa mple.com/%zz": "",
	} {
		u, err := publicURL(address)
		if (err != nil) != (want == "") || err == nil && u.String() != want {
			t.Errorf("%q: got %v, %v; want %q", address, u, err, want)
		}
	}
}
