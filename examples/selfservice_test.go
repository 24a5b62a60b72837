package examples_test

import (
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

	jar, err := cookiejar.New(nil)
	must(t, err)
	person := &http.Client{Jar: jar}
	page := func(response *http.Response, err error) string {
		t.Helper()
		must(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %s %s, %v", response.Request.URL, response.Status, text, err)
		}
		return string(text)
	}
	page(person.PostForm(site+"/signup", url.Values{"email": {"ada@example.com"}, "password": {"correct horse battery staple"}}))
	made := page(person.PostForm(site+"/settings/keys/new", url.Values{"name": {"ci"}, "ability": {"items", "item", "usage"}, "life": {"0"}}))
	found := issued.FindStringSubmatch(made)
	if found == nil || found[1] != site+"/v1/items" {
		t.Fatalf("the page of the key has no command for %s/v1/items: %s", site, made)
	}
	key := "Bearer " + found[2]
	for range 20 {
		wantStatus(t, 200, "GET", found[1], "", "Authorization", key)
	}
	wantStatus(t, 429, "GET", found[1], "", "Authorization", key)
	wantStatus(t, 200, "GET", site+"/v1/items/7", "", "Authorization", key)
	for path, want := range map[string]int{"/v1/usage": 200, "/v1/secrets": 404, "/v1": 404, "/api/currencies": 404, "/healthz": 200, "/": 200} {
		wantStatus(t, want, "GET", site+path, "", "Authorization", key)
	}
	wantStatus(t, 403, "POST", site+"/v1/items", "", "Authorization", key)
	wantStatus(t, 401, "GET", site+"/v1/items/7", "")
	wantStatus(t, 404, "GET", site+"/V1/items/7", "")
	wantStatus(t, 415, "POST", site+"/api/login", "")
	if got := calls.Load(); got != 21 {
		t.Errorf("the service got %d calls, want 21", got)
	}
	if usage := page(person.Get(site + "/usage")); !strings.Contains(usage, "<strong>20</strong> of 20 used") || !strings.Contains(usage, "· Weather API</title>") {
		t.Errorf("My usage: %s", usage)
	}
}

// serveAccounts returns what "bin/upstream serve --no-rates --signup" serves.
func serveAccounts(t *testing.T, site string, gate *client.Client) http.Handler {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	config, err := app.Settings{Address: site, Data: t.TempDir(), Timezone: stack.CalmZone(), SignUp: "on", Rates: "none", Name: "Weather API"}.Parse()
	must(t, err)
	a, err := app.Open(t.Context(), config, gate, logger)
	must(t, err)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	check, err := app.CheckAssertions(stack.Secret, site, gate, logger)
	must(t, err)
	handler, err := a.Handler(config, check)
	must(t, err)
	return handler
}
