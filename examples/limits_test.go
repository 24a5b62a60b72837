package examples_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
)

// TestLimits runs the example of limits, and calls its endpoints.
func TestLimits(t *testing.T) {
	bodies := make(chan string, 1) // of the requests that reach the service
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		read, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies <- string(read)
	}))
	t.Cleanup(service.Close)
	site, gate := run(t, "limits.Caddyfile", service.URL)
	if _, err := gate.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")}); err != nil {
		t.Fatal(err)
	}
	key, err := gate.CreateKey(t.Context(), "acc_1", api.KeyRequest{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
	items := func(n int) string { return `{"items": [` + strings.Repeat("0, ", n-1) + "0]}" }
	for _, c := range []struct {
		method, path, body, media string
		status                    int
		items                     string // of the header RateLimit, without that of the pace
	}{
		{"GET", "/v1/search", "", "", 200, "search 999 search-month 19999 all-month 24999"},
		{"GET", "/v1/reports/7", "", "", 200, "report 195 all-month 24994"},
		{"POST", "/v1/upload", items(3), "application/json", 200, "all-month 24991"},
		{"POST", "/v1/upload", `{"items": []}`, "application/json", 200, "all-month 24990"},
		{"POST", "/v1/upload", items(101), "application/json", 403, ""},
		{"POST", "/v1/upload", `{"items": 5}`, "application/json", 400, ""},
		{"POST", "/v1/upload", `{"items": [0], "Items": []}`, "application/json", 400, ""},
		{"POST", "/v1/upload", `{"items": "` + strings.Repeat("x", 256<<10) + `"}`, "application/json", 413, ""},
		{"POST", "/v1/upload", items(3), "text/plain", 415, ""},
		{"GET", "/v1/usage", "", "", 200, "usage 999"},
		{"GET", "/v1/search", "", "", 200, "search 998 search-month 19998 all-month 24989"},
	} {
		response := call(t, c.method, site+c.path, key.Token, c.media, c.body)
		if got := room(response); response.StatusCode != c.status || c.status == 200 && got != c.items {
			t.Errorf("%s %s %.30q: got %s with the room %q, want %d with %q", c.method, c.path, c.body, response.Status, got, c.status, c.items)
		}
		want := c.status == 200 && c.path != "/v1/usage"
		select {
		case body := <-bodies:
			if !want || body != c.body {
				t.Errorf("%s %s %.30q: the service got the body %.30q, want a call: %t", c.method, c.path, c.body, body, want)
			}
		default:
			if want {
				t.Errorf("%s %s %.30q: did not reach the service", c.method, c.path, c.body)
			}
		}
	}
}
