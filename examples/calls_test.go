package examples_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/admin/cli"
	"github.com/caddy-tollgate/tollgate/internal/feature"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// mirror is a service that answers with the account and the plan of a call,
// its body, and a header that it should not get.
func mirror(t *testing.T, withheld string) (url string) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header.Get("Tollgate-Account"), " ", r.Header.Get("Tollgate-Plan"), r.Header.Get(withheld))
		if _, err := io.Copy(w, r.Body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(service.Close)
	return service.URL
}

// TestInFrontOfYourAPI runs the example of the README.
func TestInFrontOfYourAPI(t *testing.T) {
	site, gate := run(t, "in-front-of-your-api.Caddyfile", mirror(t, "Authorization"))
	key := []string{"Authorization", "Bearer " + newKey(t, gate, "acc_1", "team")}
	for path, want := range map[string]string{
		"/v1/search": "acc_1 team", "/v1/files/a/b": "acc_1 team", "/v1/orders/": "acc_1 team", "/v1/orders/7": "acc_1 team", "/about": " ",
	} {
		if got := wantStatus(t, 200, "GET", site+path, "", append(key, "Tollgate-Account", "other")...); got != want && path != "/about" {
			t.Errorf("%s: the service got %q, want %q", path, got, want)
		}
	}
	wantStatus(t, 200, "GET", site+"/v1/usage", "", key...)
	for _, path := range []string{"/v1/search", "/v1/usage", "/v1/orders/7"} {
		wantStatus(t, 401, "GET", site+path, "", "Tollgate-Account", "acc_1")
	}
	for _, path := range []string{"/v1/secrets", "/v1/", "/v1", "/V1/search", "/%76%31/search"} {
		wantStatus(t, map[bool]int{true: 404, false: 401}[path != "/%76%31/search"], "GET", site+path, "")
	}
	wantStatus(t, 403, "POST", site+"/v1/orders/", "", key...)
	exhaust(t, gate, "acc_1", "search", 1)
	wantStatus(t, 429, "GET", site+"/v1/search", "", key...)
}

// TestLimits runs the example of limits, and calls its endpoints.
func TestLimits(t *testing.T) {
	site, gate := run(t, "limits.Caddyfile", mirror(t, "Authorization"))
	token := newKey(t, gate, "acc_1", "starter")
	items := func(n int) string { return `{"items": [` + strings.Repeat("0, ", n-1) + "0]}" }
	for _, c := range []struct {
		method, path, body string
		status             int
		room               string // of the header RateLimit, without that of the pace
	}{
		{"GET", "/v1/search", "", 200, "search 999 search-month 19999 all-month 24999"},
		{"GET", "/v1/reports/7", "", 200, "report 195 all-month 24994"},
		{"POST", "/v1/upload", items(3), 200, "all-month 24991"},
		{"POST", "/v1/upload", `{"items": []}`, 200, "all-month 24990"},
		{"POST", "/v1/upload", items(101), 403, ""},
		{"POST", "/v1/upload", `{"items": 5}`, 400, ""},
		{"POST", "/v1/upload", `{"items": "` + strings.Repeat("x", 256<<10) + `"}`, 413, ""},
		{"GET", "/v1/usage", "", 200, "usage 999"},
		{"GET", "/v1/search", "", 200, "search 998 search-month 19998 all-month 24989"},
	} {
		response, text := ask(t, c.method, site+c.path, c.body, "Authorization", "Bearer "+token, "Content-Type", "application/json")
		if got := room(response); response.StatusCode != c.status || c.status == 200 && got != c.room {
			t.Errorf("%s %s %.30q: got %s with the room %q, want %d with %q", c.method, c.path, c.body, response.Status, got, c.status, c.room)
		}
		if c.status == 200 && c.path != "/v1/usage" && text != "acc_1 starter"+c.body {
			t.Errorf("%s %s: the service got %.80q", c.method, c.path, text)
		}
	}
}

// TestSeveralGates runs the example of several gates with each form of its
// store, and calls an endpoint.
func TestSeveralGates(t *testing.T) {
	const password = "a@password:of/thirty%characters"
	t.Setenv("REDIS_PASSWORD", password)
	service := mirror(t, "Authorization")
	for name, start := range map[string]func() []*redistest.Server{
		"redis": func() []*redistest.Server {
			return []*redistest.Server{redistest.Start(t, "requirepass "+password)}
		},
		"redis+sentinel": func() []*redistest.Server {
			return redistest.StartSentinel(t, 1, "requirepass "+password).Sentinels
		},
		"redis+cluster": func() []*redistest.Server {
			return redistest.StartCluster(t, 3, "requirepass "+password).Servers
		},
	} {
		t.Run(name, func(t *testing.T) {
			var hosts []string
			for _, server := range start() {
				hosts = append(hosts, server.Addr())
			}
			t.Setenv("REDIS_HOSTS", strings.Join(hosts, ","))
			var commented []string
			if name != "redis" {
				commented = []string{storeLine(t, "store redis redis://"), uncomment(t, "store redis "+name)}
			}
			site, gate := run(t, "several-gates.Caddyfile", service, commented...)
			eventually(t, "the gate to find the servers", func() bool {
				_, err := gate.PutAccount(t.Context(), "acc_1", api.AccountChange{Plan: new("starter")})
				return err == nil
			})
			key := []string{"Authorization", "Bearer " + newKey(t, gate, "acc_1", "starter")}
			for _, want := range []string{"rates 999", "rates 998"} {
				response, _ := ask(t, "GET", site+"/api/rates/EUR", "", key...)
				if got := room(response); response.StatusCode != http.StatusOK || got != want {
					t.Errorf("got %s with the room %q, want 200 with %q", response.Status, got, want)
				}
			}
		})
	}
}

// storeLine returns the line of the example of several gates that begins so.
func storeLine(t *testing.T, begin string) string {
	t.Helper()
	_, rest, found := strings.Cut(read(t, "several-gates.Caddyfile"), begin)
	if !found {
		t.Fatalf("the example has no %s", begin)
	}
	line, _, _ := strings.Cut(rest, "\n")
	return begin + line
}

// uncomment returns a line of a comment, with the block that follows it.
func uncomment(t *testing.T, begin string) string {
	t.Helper()
	line := storeLine(t, begin)
	if !strings.HasSuffix(line, "{") {
		return line
	}
	_, block, _ := strings.Cut(read(t, "several-gates.Caddyfile"), line)
	block, _, _ = strings.Cut(block, "}")
	return line + strings.ReplaceAll(block, "#\t", "") + "}"
}

// server is one of several servers of a service.
type server struct {
	address      string
	calls        atomic.Int64 // that it got
	sick, broken atomic.Bool  // fails health checks; breaks connections
}

func newServer(t *testing.T) *server {
	s := new(server)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/healthz" && s.sick.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/healthz":
		case s.broken.Load():
			s.calls.Add(1)
			panic(http.ErrAbortHandler)
		default:
			s.calls.Add(1)
		}
	}))
	t.Cleanup(service.Close)
	s.address = service.Listener.Addr().String()
	return s
}

// TestUpstreams runs the example of several servers: one works, one fails its
// health checks, one cannot be reached, and one breaks connections.
func TestUpstreams(t *testing.T) {
	works, sick, breaks := newServer(t), newServer(t), newServer(t)
	sick.sick.Store(true)
	dead := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	site, gate := run(t, "upstreams.Caddyfile", strings.Join([]string{dead, sick.address, breaks.address, works.address}, " "),
		"# trusted_proxies static 10.0.0.5", "trusted_proxies static 127.0.0.1", "# trusted_proxies_strict", "trusted_proxies_strict")
	key := []string{"Authorization", "Bearer " + newKey(t, gate, "acc_1", "starter")}
	orders := int64(0)
	noCalls := func(what string, to *server) {
		t.Helper()
		eventually(t, "no call to the server that "+what, func() bool {
			before := to.calls.Load()
			for range 40 { // Caddy chooses at random among servers that are equal
				wantStatus(t, 200, "GET", site+"/v1/orders/7", "", key...)
				orders++
			}
			return to.calls.Load() == before
		})
	}
	noCalls("fails its health checks", sick)
	// A GET whose connection breaks goes to another server. After two errors
	// the server gets none.
	breaks.broken.Store(true)
	noCalls("breaks connections", breaks)
	if got := used(t, gate, "acc_1", "order"); got != orders {
		t.Errorf("the account has %d calls, want %d: tries of one call are one", got, orders)
	}
	// The only server that is left breaks the connection: a POST is sent once,
	// and refunded.
	works.broken.Store(true)
	before := works.calls.Load()
	wantStatus(t, 502, "POST", site+"/v1/orders", `{}`, key...)
	if got := works.calls.Load() - before; got != 1 {
		t.Errorf("a POST reached the service %d times, want 1", got)
	}
	if got := used(t, gate, "acc_1", "order-create"); got != 0 {
		t.Errorf("the account has %d calls that no server answered, want 0", got)
	}
	wantStatus(t, 401, "GET", site+"/v1/orders/7", "")
	wantStatus(t, 404, "GET", site+"/about", "")

	// The load balancer says who the client is, in the last address.
	works.broken.Store(false)
	restricted, err := gate.CreateKey(t.Context(), "acc_1", api.KeyRequest{Name: "restricted", Addresses: []string{"203.0.113.0/24"}})
	must(t, err)
	for clients, want := range map[string]int{"203.0.113.9": 200, "198.51.100.1, 203.0.113.9": 200, "203.0.113.9, 198.51.100.1": 403} {
		wantStatus(t, want, "GET", site+"/v1/orders/7", "", "Authorization", "Bearer "+restricted.Token, "X-Forwarded-For", clients)
	}
}

// tokens has the examples where a token is in a header that Caddy would log:
// the path of an endpoint, and the headers with a token in place of TOKEN.
var tokens = map[string][]string{
	"php.Caddyfile": {"/v1/cart", "X-Api-Key", "TOKEN"},
	"websocket-sse.Caddyfile": {
		"/v1/chat", "Sec-WebSocket-Protocol", "chat, tollgate.bearer.TOKEN", "Connection", "Upgrade", "Upgrade", "websocket",
		"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
	},
}

// TestTokensInLogs calls each of these examples with a key, while the service
// breaks off, and looks for the key in the access log and the error log.
func TestTokensInLogs(t *testing.T) {
	broken := newServer(t)
	broken.broken.Store(true)
	for _, file := range examples(t) {
		text := read(t, file)
		at, found := tokens[file]
		if !found {
			if strings.Contains(text, "\ttoken_header ") || strings.Contains(text, "\tupgrade\n") {
				t.Errorf("%s has tokens in other headers: the test needs a call", file)
			}
			continue
		}
		t.Run(file, func(t *testing.T) {
			logs := filepath.Join(t.TempDir(), "caddy.log")
			site, gate := load(t, file, freeAddress(t), broken.address, func(config map[string]any) {
				member(config, "logging", "logs", "default")["writer"] = map[string]any{"output": "file", "filename": logs}
				member(config, "apps", "tollgate")["errors"] = "pass" // then Caddy logs the request of an error
			})
			token := newKey(t, gate, "acc_1", "starter")
			header := strings.Split(strings.ReplaceAll(strings.Join(at[1:], "\n"), "TOKEN", token), "\n")
			wantStatus(t, 502, "GET", site+at[0], "", header...)
			eventually(t, "both logs", func() bool {
				found := loggers(t, logs, token)
				return found["http.log.access"] && found["http.log.error"]
			})
		})
	}
}

// loggers returns what wrote a log about requests. No line
// may contain the token.
func loggers(t *testing.T, file, token string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	if strings.Contains(string(text), token) {
		t.Fatalf("the log has the token: %s", text)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var entry struct {
			Logger  string
			Request struct{ Method string }
		}
		if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &entry) != nil {
			t.Fatalf("not a line of JSON: %s", line)
		}
		name, _, _ := strings.Cut(entry.Logger, ".log0")
		found[name] = found[name] || entry.Request.Method != ""
	}
	return found
}

// TestCommands: the command line has each command in the comments of the
// examples, with its flags and as many arguments.
func TestCommands(t *testing.T) {
	found := 0
	for _, file := range examples(t) {
		for line := range strings.Lines(read(t, file)) {
			_, comment, _ := strings.Cut(line, "#")
			_, text, is := strings.Cut(comment, "caddy tollgate ")
			if !is {
				continue
			}
			found++
			root := &cobra.Command{Use: "tollgate"}
			cli.Add(root, func(string) (*client.Client, error) { return nil, nil }, feature.Commands)
			command, rest, err := root.Find(strings.Fields(text))
			if err == nil {
				err = command.ParseFlags(rest)
			}
			if err == nil {
				err = command.ValidateArgs(command.Flags().Args())
			}
			if err != nil || !command.Runnable() || command.HasSubCommands() {
				t.Errorf("%s: invalid command %q: %v", file, text, err)
			}
		}
	}
	if found == 0 {
		t.Error("the examples have no commands")
	}
}
