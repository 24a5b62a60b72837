package policy_test

import (
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/policy"
)

// TestDocs: the address is in a header and on a page, so it is a URL of the web
// or a path.
func TestDocs(t *testing.T) {
	t.Parallel()
	for address, valid := range map[string]bool{
		"": true, "/docs": true, "/": true, "https://docs.example.com": true, "http://localhost:8080/docs?a=b#c": true,
		"docs": false, "//other.example": false, "javascript:alert(1)": false, "https://": false, "/a b": false, "/a>": false, "ftp://a": false, "/\x00": false, `/"`: false, "/%zz": false,
	} {
		if _, err := policy.New(policy.Config{Docs: address}); (err == nil) != valid {
			t.Errorf("%q: got %v, want valid: %v", address, err, valid)
		}
	}
}
