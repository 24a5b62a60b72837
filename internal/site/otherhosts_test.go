package site

import "testing"

// The addresses have the schemes and ports of a site, and no host of it.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://localhost:8080":                  "http://:8080",
		"https://api.example.com":                "https://",
		"api.example.com":                        "https://",
		"api.example.com:80":                     "http://:80",
		"localhost:8443":                         "https://:8443",
		"http://[::1]:8080":                      "http://:8080",
		"http://[::1]":                           "http://",
		"https://a.example, https://*.b.example": "https://",
		"http://a.example:8080,http://b.example, https://c.com": "http://:8080, http://, https://",
		// A second site for all hosts would be an error.
		":8080":                               "http://other-hosts.internal:8080",
		":443":                                "https://other-hosts.internal:443",
		"http://a.example:8080, http://:8080": "http://other-hosts.internal:8080",
		"http://:8080, https://a.example":     "https://",
		"https://a.example http://b.example":  "https://, http://",
		"http://:8080":                        "http://other-hosts.internal:8080",
	} {
		if got := otherHosts(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}
