package examples_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os/exec"
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

// run runs an example in this process, in front of a service. It returns the
// URL of the site and a client of the control API.
func run(t *testing.T, file, service string) (site string, gate *client.Client) {
	t.Helper()
	site = address(t)
	return site, load(t, file, site, service, func(map[string]any) {})
}

// address returns a free address for a site.
func address(t *testing.T) string {
	t.Helper()
	return "http://127.0.0.1:" + stack.FreePorts(t, 1)[0]
}

// load runs an example at a URL, in front of a service, with a changed
// configuration. It returns a client of the control API.
func load(t *testing.T, file, site, service string, change func(config map[string]any)) *client.Client {
	t.Helper()
	control := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	t.Setenv("TOLLGATE_SECRET", stack.Secret)
	t.Setenv("TOLLGATE_DATA", filepath.Join(t.TempDir(), "data"))
	t.Setenv("TOLLGATE_ADDRESS", site)
	t.Setenv("TOLLGATE_CONTROL", control)
	t.Setenv("TOLLGATE_UPSTREAM", strings.TrimPrefix(service, "http://"))
	var config map[string]any
	if err := json.Unmarshal(adapt(t, file, read(t, file)), &config); err != nil {
		t.Fatal(err)
	}
	member(config, "admin")["disabled"] = true
	change(config)
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
	gate, err := client.New("http://"+control, stack.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return gate
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

// replace replaces a value of a member in a configuration, and returns how
// many it found.
func replace(config any, name string, old, value any) (found int) {
	switch object := config.(type) {
	case []any:
		for _, element := range object {
			found += replace(element, name, old, value)
		}
	case map[string]any:
		if object[name] == old {
			object[name] = value
			found++
		}
		for _, member := range object {
			found += replace(member, name, old, value)
		}
	}
	return found
}

// newKey makes an account with a plan, and returns the token of a key.
func newKey(t *testing.T, gate *client.Client, account, plan string) (token string) {
	t.Helper()
	if _, err := gate.PutAccount(t.Context(), account, api.AccountChange{Plan: &plan}); err != nil {
		t.Fatal(err)
	}
	key, err := gate.CreateKey(t.Context(), account, api.KeyRequest{Name: "ci"})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range usage.Endpoints {
		if e.Endpoint == endpoint {
			return e.Used
		}
	}
	t.Fatalf("the usage of %s has no %s", account, endpoint)
	return 0
}

// call makes a request with a key. Its answer has no body.
func call(t *testing.T, method, url, token, media, body string) *http.Response {
	t.Helper()
	fields := []string{"Authorization", "Bearer " + token}
	if media != "" {
		fields = append(fields, "Content-Type", media)
	}
	response, _ := ask(t, method, url, body, fields...)
	return response
}

// ask makes a request with headers, each a name and a value, and returns the
// answer and its body.
func ask(t *testing.T, method, url, body string, fields ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		request.Header.Add(fields[i], fields[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
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

// program starts a program that accepts connections at an address, and stops
// it at the end.
func program(t *testing.T, address string, command *exec.Cmd) {
	t.Helper()
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		if err := command.Process.Kill(); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		<-ended
		if t.Failed() {
			t.Logf("%s wrote:\n%s", command, &out)
		}
	})
	eventually(t, command.String(), func() bool {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	})
}
