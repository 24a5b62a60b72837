package examples_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// run runs an example in this process, in front of a service, with each old
// string replaced by the new string after it. It returns the URL of the site
// and a client of the control API.
func run(t *testing.T, file, service string, oldnew ...string) (site string, gate *client.Client) {
	t.Helper()
	return load(t, file, freeAddress(t), service, func(map[string]any) {}, oldnew...)
}

// freeAddress returns a free address for a site.
func freeAddress(t *testing.T) string {
	t.Helper()
	return "http://127.0.0.1:" + stack.FreePorts(t, 1)[0]
}

// load is like run, with an address of the site and further changes.
func load(t *testing.T, file, site, service string, change func(config map[string]any), oldnew ...string) (address string, gate *client.Client) {
	t.Helper()
	control := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	scheme, _, _ := strings.Cut(site, "://")
	for name, value := range map[string]string{
		"SECRET": stack.Secret, "DATA": filepath.Join(t.TempDir(), "data"), "ADDRESS": site, "OTHER_HOSTS": scheme + "://" + site[strings.LastIndex(site, ":"):], "CONTROL": control, "UPSTREAM": strings.TrimPrefix(service, "http://"),
	} {
		t.Setenv("TOLLGATE_"+name, value)
	}
	text := read(t, file)
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(text, oldnew[i]) {
			t.Fatalf("%s has no %q", file, oldnew[i])
		}
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	if !strings.Contains(text, "tollgate_control") {
		text += "http://" + control + " {\n\ttollgate_control\n}\n"
	}
	var config map[string]any
	must(t, json.Unmarshal(adapt(t, file, text), &config))
	member(config, "admin")["disabled"] = true
	member(config, "apps", "tollgate")["timezone"] = stack.CalmZone() // midnight must not come between the calls
	change(config)
	loaded, err := json.Marshal(config)
	must(t, err)
	must(t, caddy.Load(loaded, true))
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	if gate, err = client.New("http://"+control, stack.Secret); err != nil {
		t.Fatal(err)
	}
	return site, gate
}

// member returns an object of a configuration by the names above it, and
// makes what is missing.
func member(config map[string]any, names ...string) map[string]any {
	for _, name := range names {
		if config[name] == nil {
			config[name] = map[string]any{}
		}
		config = config[name].(map[string]any)
	}
	return config
}

// newKey makes an account with a plan, and returns the token of a key.
func newKey(t *testing.T, gate *client.Client, account, plan string) (token string) {
	t.Helper()
	if _, err := gate.PutAccount(t.Context(), account, api.AccountChange{Plan: &plan}); err != nil {
		t.Fatal(err)
	}
	key, err := gate.CreateKey(t.Context(), account, api.KeyRequest{Name: "ci"})
	must(t, err)
	return key.Token
}

// exhaust sets the daily limit of an account to its calls so far.
func exhaust(t *testing.T, gate *client.Client, account, endpoint string, calls int64) {
	t.Helper()
	if _, err := gate.SetLimit(t.Context(), account, endpoint, "day", api.OverrideRequest{Limit: &calls}); err != nil {
		t.Fatal(err)
	}
}

// used returns the calls of an account to an endpoint today.
func used(t *testing.T, gate *client.Client, account, endpoint string) int64 {
	t.Helper()
	usage, err := gate.Usage(t.Context(), account, 1)
	must(t, err)
	for _, e := range usage.Endpoints {
		if e.Endpoint == endpoint {
			return e.Used
		}
	}
	t.Fatalf("the usage of %s has no %s", account, endpoint)
	return 0
}

// ask makes a request with headers, each a name and a value, and returns the
// answer and its body.
func ask(t *testing.T, method, url, body string, fields ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(fields); i += 2 {
		request.Header.Add(fields[i], fields[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	must(t, err)
	return response, string(answer)
}

// wantStatus makes a request with headers, and checks the status of its answer.
func wantStatus(t *testing.T, status int, method, url, body string, fields ...string) (answer string) {
	t.Helper()
	response, answer := ask(t, method, url, body, fields...)
	if response.StatusCode != status {
		t.Errorf("%s %s with %q: got %s %.200s, want %d", method, url, fields, response.Status, answer, status)
	}
	return answer
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: it takes longer than a minute", what)
		}
	}
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

// decode decodes a JSON document.
func decode[T any](t *testing.T, text string) (value T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Errorf("decoding %.200q: %v", text, err)
	}
	return value
}

// must fails a test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
