package assertion

import (
	"testing"
)

func TestPublicURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://localhost:8080":    "http://localhost:8080",
		"example.com":              "https://example.com",
		"example.com:8443":         "https://example.com:8443",
		"example.com:80":           "http://example.com:80",
		":8080":                    "http://localhost:8080",
		"a.example, b.example":     "https://a.example",
		"bücher.example:8443":      "https://xn--bcher-kva.example:8443",
		"http://[::1]:8080":        "http://[::1]:8080",
		"[2001:DB8::1]":            "https://[2001:db8::1]",
		"BÜCHER.Example":           "https://xn--bcher-kva.example",
		"https://example.com/":     "https://example.com",
		"https://example.com/app":  "",
		"https://example.com?a":    "",
		"https://example.com#a":    "",
		"https://a:b@example.com":  "",
		"unix//run/pages.sock":     "",
		"":                         "",
		"ftp://example.com":        "",
		"https://exa mple.com/%zz": "",
	} {
		u, err := PublicURL(address)
		if (err != nil) != (want == "") || err == nil && u.String() != want {
			t.Errorf("%q: got %v, %v; want %q", address, u, err, want)
		}
	}
}

// An assertion is accepted for the hosts that clients can ask for at the
// site's address, and for no other.
func TestHosts(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ yes, no []string }{
		"http://localhost:8080":   {[]string{"localhost"}, []string{"127.0.0.1", "localhost.", "x.localhost", ""}},
		"https://API.example.com": {[]string{"api.example.com"}, []string{"example.com", "www.example.com"}},
		"example.com":             {[]string{"example.com"}, []string{"example.com.evil"}},
		"a.example, b.example:80": {[]string{"a.example", "b.example"}, []string{"c.example", "a.example, b.example:80"}},
		"*.example.com":           {[]string{"a.example.com"}, []string{"example.com", "a.b.example.com", "a.example.org"}},
		"http://bücher.example":   {[]string{"xn--bcher-kva.example"}, []string{"bucher.example"}},
		"http://[::1]:8080":       {[]string{"::1"}, []string{"::2", "localhost"}},
		":8080":                   {[]string{"localhost", "127.0.0.1", "any.example"}, nil},
	} {
		accepts, err := Hosts(address)
		if err != nil {
			t.Errorf("%q: %v", address, err)
			continue
		}
		for _, host := range want.yes {
			if !accepts(host) {
				t.Errorf("%q does not accept %q", address, host)
			}
		}
		for _, host := range want.no {
			if accepts(host) {
				t.Errorf("%q accepts %q", address, host)
			}
		}
	}
	for _, address := range []string{"", "a.example, ftp://b.example", "a.example,"} {
		if _, err := Hosts(address); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}
