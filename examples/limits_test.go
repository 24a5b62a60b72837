package examples_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
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

// run runs an example in this process, in front of a service. It returns the
// URL of the site and a client of the control API.
func run(t *testing.T, file, service string) (site string, gate *client.Client) {
	t.Helper()
	ports := stack.FreePorts(t, 2)
	site = "http://127.0.0.1:" + ports[0]
	t.Setenv("TOLLGATE_SECRET", stack.Secret)
	t.Setenv("TOLLGATE_DATA", filepath.Join(t.TempDir(), "data"))
	t.Setenv("TOLLGATE_ADDRESS", site)
	t.Setenv("TOLLGATE_CONTROL", "127.0.0.1:"+ports[1])
	t.Setenv("TOLLGATE_UPSTREAM", strings.TrimPrefix(service, "http://"))
	var config map[string]any
	if err := json.Unmarshal(adapt(t, file, read(t, file)), &config); err != nil {
		t.Fatal(err)
	}
	config["admin"] = map[string]any{"disabled": true}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(text, true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	if gate, err = client.New("http://127.0.0.1:"+ports[1], stack.Secret); err != nil {
		t.Fatal(err)
	}
	return site, gate
}

// call makes a request. Its answer has no body.
func call(t *testing.T, method, url, token, media, body string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if media != "" {
		request.Header.Set("Content-Type", media)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response
}

var item = regexp.MustCompile(`"([a-z-]+)";r=([0-9]+)`)

// room returns the items of the header RateLimit, without those of paces,
// which are refilled all the time.
func room(response *http.Response) string {
	var all []string
	for _, match := range item.FindAllStringSubmatch(response.Header.Get("RateLimit"), -1) {
		if match[1] != "all-minute" {
			all = append(all, match[1], match[2])
		}
	}
	return strings.Join(all, " ")
}
