package apierror_test

import (
	"net/http"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/apierror"
)

// TestNegotiate checks that the most specific media range decides.
func TestNegotiate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		accept []string
		want   bool
	}{
		{nil, true},
		{[]string{""}, true},
		{[]string{"*/*"}, true},
		{[]string{"application/*"}, true},
		{[]string{"Application/JSON; charset=utf-8"}, true},
		{[]string{"text/html, */*;q=0.1"}, true},
		{[]string{"*/*;q=0, application/json"}, true},
		{[]string{"application/json;q=nonsense"}, true},
		{[]string{"a;b,c, application/json"}, true},
		{[]string{"text/html", "application/json"}, true},
		{[]string{"text/html"}, false},
		{[]string{"application/json;q=0"}, false},
		{[]string{"*/*, application/json;q=0"}, false},
		{[]string{"application/*;q=0, */*"}, false},
		{[]string{"a;b,c"}, false},
		{[]string{";"}, true}, // no range at all
	} {
		_, refused := apierror.Negotiate(http.Header{"Accept": test.accept})
		if got := refused == nil; got != test.want {
			t.Errorf("Accept: %q: got %v, want %v", test.accept, got, test.want)
		}
		if refused != nil && (refused.Status != http.StatusNotAcceptable || refused.Code != "not_acceptable") {
			t.Errorf("Accept: %q: got %d %s", test.accept, refused.Status, refused.Code)
		}
	}
}

// TestNegotiateSeveral checks that the highest weight decides, then the more
// specific range, and JSON without a preference.
func TestNegotiateSeveral(t *testing.T) {
	t.Parallel()
	const json, csv, lines = "application/json", "text/csv", "application/x-ndjson"
	for _, test := range []struct {
		accept []string
		want   string
	}{
		{nil, json},
		{[]string{"*/*"}, json},
		{[]string{"text/csv"}, csv},
		{[]string{"Text/CSV; charset=utf-8; header=present"}, csv},
		{[]string{"text/*"}, csv},
		{[]string{"application/x-ndjson"}, lines},
		{[]string{"application/*"}, json},
		{[]string{"text/csv, */*"}, csv},
		{[]string{"*/*", "application/x-ndjson"}, lines},
		{[]string{"text/*, */*"}, csv},
		{[]string{"application/x-ndjson, text/csv, */*"}, csv},
		{[]string{"text/csv, application/*"}, csv},
		{[]string{"text/csv, application/json"}, json},
		{[]string{"text/csv, */*, application/json"}, json},
		{[]string{"text/csv;q=0.5, */*"}, json},
		{[]string{"text/csv, */*;q=0.9"}, csv},
		{[]string{"text/csv", "application/json;q=0.5"}, csv},
		{[]string{"text/csv;q=0.5, application/x-ndjson;q=0.7"}, lines},
		{[]string{"text/csv;q=0.5, application/x-ndjson;q=0.7, application/json"}, json},
		{[]string{"application/json;q=0, */*;q=0.1"}, csv},
		{[]string{"text/csv;q=0, application/json;q=0, */*"}, lines},
		{[]string{"text/csv;q=0.9, text/csv;q=0.1, application/json;q=0.5"}, csv},
		{[]string{"text/csv;q=0"}, ""},
		{[]string{"text/plain"}, ""},
	} {
		got, refused := apierror.Negotiate(http.Header{"Accept": test.accept}, csv, lines)
		if got != test.want || (refused == nil) != (test.want != "") {
			t.Errorf("Accept: %q: got %q, want %q", test.accept, got, test.want)
		}
	}
}

// TestPrefersHTML checks that only a client that prefers HTML to JSON gets
// a page.
func TestPrefersHTML(t *testing.T) {
	t.Parallel()
	const chromium = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	for _, test := range []struct {
		accept []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"*/*"}, false},
		{[]string{"application/json"}, false},
		{[]string{chromium}, true},
		{[]string{"text/html"}, true},
		{[]string{"TEXT/HTML; charset=utf-8"}, true},
		{[]string{"text/*"}, true},
		{[]string{"text/html", "*/*;q=0.1"}, true},
		{[]string{"text/html, application/json"}, false},
		{[]string{"text/html;q=0.8, application/json;q=0.9"}, false},
		{[]string{"text/html;q=0.9, application/json;q=0.8"}, true},
		{[]string{"text/html;q=0.9, application/*"}, false},
		{[]string{"text/html;q=0, */*"}, false},
		{[]string{"text/html;q=0"}, false},
		{[]string{"*/*, application/json;q=0"}, true},
		{[]string{"text/htmlx, text/htm"}, false},
		{[]string{"text/html;q=NaN, application/json;q=0.5"}, true},
		{[]string{"text/html;q=5, application/json;q=1"}, false},
	} {
		if got := apierror.PrefersHTML(http.Header{"Accept": test.accept}); got != test.want {
			t.Errorf("Accept: %q: got %v, want %v", test.accept, got, test.want)
		}
	}
}
