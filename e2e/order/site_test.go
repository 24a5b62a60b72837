//go:build long

package order_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// modules is a gate with modules of other projects, in front of a service.
// Each of its sites has the handlers in an order of its own.
type modules struct {
	*stack.Stack
	service *ledger
	sites   map[string]string // addresses by name
	ada     string            // a key
	bob     string            // a key of another account
}

// ledger is a service whose answers name the account and the request, with
// the headers that the query asks for.
type ledger struct {
	*httptest.Server
	mu   sync.Mutex
	seen int
}

func newLedger(t *testing.T) *ledger {
	t.Helper()
	l := &ledger{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.seen++
		n := l.seen
		l.mu.Unlock()
		for _, name := range []string{"Cache-Control", "Vary"} {
			if value := r.URL.Query().Get(name); value != "" {
				w.Header().Set(name, value)
			}
		}
		fmt.Fprintf(w, "request %d of %q", n, r.Header.Get("Tollgate-Account"))
	}))
	t.Cleanup(l.Close)
	return l
}

// requests returns how many requests the service has got.
func (l *ledger) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// startModules starts sites by the directives of each. SERVICE in a site is
// the proxy to the service.
func startModules(t *testing.T, global, options string, sites map[string]string) *modules {
	t.Helper()
	m := &modules{service: newLedger(t), sites: map[string]string{}}
	text := fmt.Sprintf(`{
	admin {$CADDY_ADMIN}
	auto_https off
	%s
	tollgate {
		store badger {$TOLLGATE_DATA}/gate
		timezone {$TOLLGATE_TIMEZONE}
		secret {env.TOLLGATE_SECRET}
		guard /api/
		usage GET /api/usage
		endpoint items GET /api/items/{id}
		plan free
		plan paid {
			items 1000
			usage 1000
		}
		%s
	}
}
{$TOLLGATE_ADDRESS} {
	bind 127.0.0.1
	tollgate
}
`, global, options)
	ports := stack.FreePorts(t, len(sites))
	for name, directives := range sites {
		m.sites[name] = "http://127.0.0.1:" + ports[len(m.sites)]
		text += fmt.Sprintf("%s {\n\tbind 127.0.0.1\n\t%s\n}\n", m.sites[name], strings.ReplaceAll(directives, "SERVICE", "reverse_proxy "+m.service.Listener.Addr().String()))
	}
	m.Stack = stack.StartModules(t, text)
	for _, account := range []string{"ada", "bob"} {
		m.Tollgate("account", "set", account, "--plan", "paid")
	}
	m.ada, m.bob = m.key(t, "ada", "ci").Token, m.key(t, "bob", "ci").Token
	return m
}

// issued is a new key.
type issued struct{ ID, Token string }

func (m *modules) key(t *testing.T, account, name string) (key issued) {
	t.Helper()
	must(t, json.Unmarshal([]byte(m.Tollgate("key", "create", account, "--name", name, "--json")), &key))
	return key
}

// answer is a response that was read to its end.
type answer struct {
	*http.Response
	text string
}

// get calls a site. The header is "Name: value", or "" for none.
func (m *modules) get(t *testing.T, site, path, header string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", m.sites[site]+path, nil)
	must(t, err)
	if name, value, found := strings.Cut(header, ": "); found {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return answer{response, string(text)}
}

// used returns how many calls of an account are counted today.
func (m *modules) used(t *testing.T, account string) int64 {
	t.Helper()
	var usage struct {
		Endpoints []struct {
			Endpoint string
			Used     int64
		}
	}
	must(t, json.Unmarshal([]byte(m.Tollgate("usage", "show", account, "--json")), &usage))
	for _, e := range usage.Endpoints {
		if e.Endpoint == "items" {
			return e.Used
		}
	}
	t.Fatalf("no endpoint items in the usage of %s", account)
	return 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
