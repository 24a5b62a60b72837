package examples_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/upstream/app"
)

var issued = regexp.MustCompile(`curl &#34;([^ ]*)&#34; -H &#34;Authorization: Bearer (tgk_[0-9A-Za-z]{49})`)

// TestSelfService runs the example of self-service: a person signs up, makes
// a key, and calls the operator's service until the plan is used up.
func TestSelfService(t *testing.T) {
	var calls atomic.Int64 // that reach the service
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.Header.Get("Tollgate-Plan") != "free" || r.Header.Get("Authorization") != "" {
			t.Errorf("the service got %s %s with %v", r.Method, r.URL, r.Header)
		}
	}))
	t.Cleanup(service.Close)
	t.Setenv("SERVICE", strings.TrimPrefix(service.URL, "http://"))
	upstream := httptest.NewUnstartedServer(nil) // its handler calls the gate
	t.Cleanup(upstream.Close)
	site, gate := run(t, "self-service.Caddyfile", "http://"+upstream.Listener.Addr().String())
	upstream.Config.Handler = serveAccounts(t, site, gate)
	upstream.Start()

	person := browse(t)
	person.post(site+"/signup", url.Values{"email": {"ada@example.com"}, "password": {"correct horse battery staple"}})
	made := person.post(site+"/settings/keys/new", url.Values{"name": {"ci"}, "ability": {"items.read", "usage"}, "life": {"0"}})
	found := issued.FindStringSubmatch(made)
	if found == nil || found[1] != site+"/v1/items" {
		t.Fatalf("the page of the key has no command for %s/v1/items: %s", site, made)
	}
	key := found[2]
	for n := range 21 {
		want := http.StatusOK
		if n == 20 {
			want = http.StatusTooManyRequests
		}
		if response := call(t, "GET", found[1], key, "", ""); response.StatusCode != want {
			t.Fatalf("call %d: got %s, want %d", n+1, response.Status, want)
		}
	}
	for _, c := range []struct {
		method, path, token string
		status              int
		calls               int64 // of the service until here
	}{
		{"GET", "/v1/items/7", key, 200, 21},
		{"GET", "/v1/usage", key, 200, 21},
		{"POST", "/v1/items", key, 403, 21},
		{"GET", "/v1/items/7", "", 401, 21},
		{"GET", "/V1/items/7", "", 404, 21},
		{"GET", "/v1/secrets", key, 404, 21},
		{"GET", "/v1", key, 404, 21},
		{"GET", "/openapi.json", "", 404, 21},
		{"GET", "/api/currencies", key, 404, 21},
		{"POST", "/api/login", "", 415, 21},
		{"GET", "/healthz", "", 200, 21},
		{"GET", "/", "", 200, 21},
	} {
		response := call(t, c.method, site+c.path, c.token, "", "")
		if got := calls.Load(); response.StatusCode != c.status || got != c.calls {
			t.Errorf("%s %s: got %s and %d calls of the service, want %d and %d", c.method, c.path, response.Status, got, c.status, c.calls)
		}
	}
	if usage := person.get(site + "/usage"); !strings.Contains(usage, "<strong>20</strong> of 20 used") || !strings.Contains(usage, "· Weather API</title>") {
		t.Errorf("My usage: %s", usage)
	}
}

// serveAccounts returns what "bin/upstream serve --no-rates --signup" serves.
func serveAccounts(t *testing.T, site string, gate *client.Client) http.Handler {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	a, err := app.Open(t.Context(), app.Options{Directory: t.TempDir(), Control: gate, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	check, err := app.CheckAssertions(stack.Secret, site, gate, logger)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := a.Handler(app.Site{Address: site, Timezone: "UTC", SignUp: "free", NoRates: true, Name: "Weather API", Check: check})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// browser is a person's browser. It follows redirects.
type browser struct {
	t      *testing.T
	client *http.Client
}

func browse(t *testing.T) browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{t, &http.Client{Jar: jar}}
}

func (b browser) post(address string, form url.Values) string {
	b.t.Helper()
	return b.page(http.MethodPost, address, strings.NewReader(form.Encode()))
}

func (b browser) get(address string) string {
	b.t.Helper()
	return b.page(http.MethodGet, address, nil)
}

func (b browser) page(method, address string, body io.Reader) string {
	b.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, address, body)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		b.t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: got %s %s", method, address, response.Status, text)
	}
	return string(text)
}
