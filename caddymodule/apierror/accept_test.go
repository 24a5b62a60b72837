package apierror_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/apierror"
)

// TestAccept: the most specific range decides, nothing a client writes
// there brings the server down, and what cannot be answered is not done.
func TestAccept(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	api := apierror.Huma(mux, huma.Config{}, nil)
	var done atomic.Int64
	huma.Register(api, huma.Operation{OperationID: "act", Method: http.MethodPost, Path: "/things"},
		func(context.Context, *struct{ Body thing }) (*output, error) {
			done.Add(1)
			return &output{Body: thing{Name: "x"}}, nil
		})
	for _, test := range []struct {
		accept []string
		want   int
	}{
		{nil, 200},
		{[]string{""}, 200},
		{[]string{"*/*"}, 200},
		{[]string{"application/*"}, 200},
		{[]string{"Application/JSON; charset=utf-8"}, 200},
		{[]string{"text/html, */*;q=0.1"}, 200},
		{[]string{"*/*;q=0, application/json"}, 200},
		{[]string{"application/json;q=nonsense"}, 200},
		{[]string{"a;b,c, application/json"}, 200},
		{[]string{"text/html", "application/json"}, 200},
		{[]string{"text/html"}, 406},
		{[]string{"application/json;q=0"}, 406},
		{[]string{"*/*, application/json;q=0"}, 406},
		{[]string{"application/*;q=0, */*"}, 406},
		{[]string{"application/problem+json"}, 406},
		{[]string{"a;b,c"}, 406}, // huma's own reading panics on this
		{[]string{";"}, 200},     // no range at all
	} {
		before := done.Load()
		r := httptest.NewRequest(http.MethodPost, "/things", strings.NewReader(`{"name":"x"}`))
		if test.accept != nil {
			r.Header["Accept"] = test.accept
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("Accept: %q: got %d %s, want %d", test.accept, w.Code, w.Body, test.want)
			continue
		}
		acted := done.Load() > before
		if test.want == http.StatusNotAcceptable {
			checkRefusal(t, w, "not_acceptable", "excludes application/json")
		}
		if acted != (test.want == http.StatusOK) {
			t.Errorf("Accept: %q: acted is %v with status %d", test.accept, acted, w.Code)
		}
	}
}

// TestPrefersHTML: a page is only for clients that ask for one before
// JSON.
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
		{[]string{"application/xhtml+xml"}, false},
		{[]string{"text/htmlx, text/htm"}, false},
		{[]string{"text/html;q=NaN, application/json;q=0.5"}, true},
		{[]string{"text/html;q=5, application/json;q=1"}, false},
		{[]string{"image/png, a;b,c"}, false},
	} {
		if got := apierror.PrefersHTML(http.Header{"Accept": test.accept}); got != test.want {
			t.Errorf("Accept: %q: got %v, want %v", test.accept, got, test.want)
		}
	}
}

// FuzzAccept: whatever the field says, there is an answer.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"a;b,c", "*/*;q=0,application/json;q=1", ";;,,q=", "application/json; q=\xff"} {
		f.Add(seed)
	}
	mux := http.NewServeMux()
	api := apierror.Huma(mux, huma.Config{}, nil)
	huma.Register(api, huma.Operation{OperationID: "get", Method: http.MethodGet, Path: "/things"},
		func(context.Context, *struct{}) (*output, error) { return &output{}, nil })
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest(http.MethodGet, "/things", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != http.StatusOK && w.Code != http.StatusNotAcceptable {
			t.Errorf("Accept: %q: %d %s", accept, w.Code, w.Body)
		}
	})
}
