package protocol_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// patience limits every wait.
const patience = time.Minute

// deadAddress refuses every connection: no test gets port 1.
const deadAddress = "127.0.0.1:1"

// protocol is what the test of a protocol needs, and the test.
type protocol struct {
	endpoints []endpoint
	test      func(*testing.T, *site)
}

// endpoint is one endpoint of the gate, or without a method an open path.
type endpoint struct {
	name, method, path string
	block              string // of the options of the endpoint
	behind             string // directives behind the gate
}

// TestProtocols runs all protocols through one gate.
func TestProtocols(t *testing.T) {
	protocols := []struct {
		name string
		make func(*testing.T) protocol
	}{
		// The first one measures the memory of Caddy.
		{"transfer", transfers},
		{"versions of HTTP", versions},
		{"names", names},
		{"server-sent events", events},
		{"WebSocket", sockets},
		{"subprotocols", subprotocols},
		{"gRPC", grpcs},
		{"Early Hints", hints},
		{"departures", departures},
		{"answers that break off", cuts},
	}
	var endpoints []endpoint
	tests := make([]func(*testing.T, *site), len(protocols))
	for i, p := range protocols {
		made := p.make(t)
		endpoints, tests[i] = append(endpoints, made.endpoints...), made.test
	}
	s := start(t, endpoints)
	for i, p := range protocols {
		t.Run(p.name, func(t *testing.T) { tests[i](t, s) })
	}
}

// site is a running gate, with a site for HTTP and one for HTTPS.
type site struct {
	*stack.Stack
	control *client.Client
	secure  string // the address of the site with TLS
	roots   *x509.CertPool
	clients []httpClient
}

// httpClient is a client of one version of HTTP.
type httpClient struct {
	*http.Client
	name  string
	major int // of the version
	base  string
}

// caddyfile has the servers options of the shipped Caddyfile.
const caddyfile = `{
	persist_config off
	skip_install_trust
	auto_https disable_redirects
	grace_period 1s
	servers {
		protocols h1 h2 h2c h3
		0rtt off
		timeouts {
			read_body_idle 10s 250
		}
	}
	tollgate {
		store badger "{$TOLLGATE_DATA}/gate"
		timezone {$TOLLGATE_TIMEZONE}
		secret {env.TOLLGATE_SECRET}
		guard /api/ /grpc.testing.TestService/
		usage GET /api/usage
		login POST /api/login {
			per_client 1000 1m
			per_account 2 1h 1h
		}
		ENDPOINTS
		plan free
		plan small {
			unary 1
		}
		plan five {
			late 5
			late_retry 5
			late_cost 50
			* concurrent 2
		}
		plan large {
			LIMITS
		}
		plan few {
			LIMITS
			* concurrent 4
		}
	}
}

(services) {
	log {
		output file "{$TOLLGATE_DATA}/log/access.log"
		format filter {
			request>headers delete
		}
	}
	tollgate
	SERVICES
}

{$TOLLGATE_ADDRESS} {
	import services
}

{$SECURE} {
	tls internal
	import services
}

http://{$TOLLGATE_CONTROL} {
	bind 127.0.0.1
	tollgate_control
}
`

// limit is the limit of each endpoint of plan large.
const limit = 1000

var wildcard = regexp.MustCompile(`\{\w+(\.\.\.)?\}`)

// start starts a gate with these endpoints.
func start(t *testing.T, endpoints []endpoint) *site {
	t.Helper()
	var routes, limits, services strings.Builder
	for _, e := range endpoints {
		if e.method != "" {
			fmt.Fprintf(&routes, "endpoint %s %s %s %s\n", e.name, e.method, e.path, e.block)
			fmt.Fprintf(&limits, "%s %d\n", e.name, limit)
		}
		fmt.Fprintf(&services, "handle %s {\n%s\n}\n", wildcard.ReplaceAllString(e.path, "*"), e.behind)
	}
	text := strings.NewReplacer("ENDPOINTS", routes.String(), "LIMITS", limits.String(), "SERVICES", services.String()).Replace(caddyfile)
	s := &site{secure: "https://localhost:" + stack.FreePorts(t, 1)[0]}
	s.Stack = stack.StartGate(t, text, "SECURE="+s.secure)
	var err error
	if s.control, err = client.New(s.Control(), stack.Secret); err != nil {
		t.Fatal(err)
	}
	s.trust(t)
	s.connect(t)
	return s
}

// trust reads the certificate of Caddy's own authority.
func (s *site) trust(t *testing.T) {
	t.Helper()
	response, err := http.Get(s.Admin() + "/pki/ca/local")
	must(t, err)
	defer response.Body.Close()
	var authority struct {
		Root string `json:"root_certificate"`
	}
	s.roots = x509.NewCertPool()
	if err := json.NewDecoder(response.Body).Decode(&authority); err != nil || !s.roots.AppendCertsFromPEM([]byte(authority.Root)) {
		t.Fatalf("no certificate of the authority: %q, %v", authority.Root, err)
	}
}

// connect makes the clients.
func (s *site) connect(t *testing.T) {
	trusting := &tls.Config{RootCAs: s.roots}
	for _, c := range []struct {
		name    string
		major   int
		base    string
		h2c, h2 bool
	}{
		{"HTTP/1.1", 1, s.Address, false, false},
		{"HTTP/1.1 over TLS", 1, s.secure, false, false},
		{"HTTP/2 without TLS", 2, s.Address, true, false},
		{"HTTP/2", 2, s.secure, false, true},
	} {
		transport := &http.Transport{TLSClientConfig: trusting.Clone(), Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(c.major == 1)
		transport.Protocols.SetUnencryptedHTTP2(c.h2c)
		transport.Protocols.SetHTTP2(c.h2)
		t.Cleanup(transport.CloseIdleConnections)
		s.clients = append(s.clients, httpClient{&http.Client{Transport: transport}, c.name, c.major, c.base})
	}
	quic := &http3.Transport{TLSClientConfig: trusting.Clone()}
	t.Cleanup(func() {
		if err := quic.Close(); err != nil {
			t.Errorf("closing the client of HTTP/3: %v", err)
		}
	})
	s.clients = append(s.clients, httpClient{&http.Client{Transport: quic}, "HTTP/3", 3, s.secure})
}

// plain is the client of HTTP/1.1 without TLS.
func (s *site) plain() httpClient { return s.clients[0] }

// each runs a test with each client.
func (s *site) each(t *testing.T, test func(*testing.T, httpClient)) {
	for _, c := range s.clients {
		t.Run(c.name, func(t *testing.T) { test(t, c) })
	}
}

// account is an account with a key.
type account struct {
	*site
	id, key, token string
}

// account makes an account with a key.
func (s *site) account(t *testing.T, plan string) *account {
	t.Helper()
	a := &account{site: s, id: strings.NewReplacer("/", "-", "#", "-").Replace(t.Name())}
	if len(a.id) > api.MaxAccount {
		a.id = a.id[len(a.id)-api.MaxAccount:]
	}
	if _, err := s.control.PutAccount(t.Context(), a.id, api.AccountChange{Plan: &plan}); err != nil {
		t.Fatalf("account %s: %v", a.id, err)
	}
	key, err := s.control.CreateKey(t.Context(), a.id, api.KeyRequest{Name: "test"})
	must(t, err)
	a.key, a.token = key.ID, key.Token
	return a
}

// revoke revokes the key.
func (a *account) revoke(t *testing.T) {
	t.Helper()
	must(t, a.control.RevokeKey(t.Context(), a.id, a.key))
}

// expect checks the count of an endpoint.
func (a *account) expect(t *testing.T, endpoint string, want int64) {
	t.Helper()
	usage, err := a.control.Usage(t.Context(), a.id, 0)
	must(t, err)
	for _, e := range usage.Endpoints {
		if e.Endpoint == endpoint {
			if e.Used != want {
				t.Errorf("counted %d calls to %s, want %d", e.Used, endpoint, want)
			}
			return
		}
	}
	t.Fatalf("no endpoint %s", endpoint)
}

// ended waits until the gate has recorded n calls of the account. It records
// a call at its end, and a switch of protocols at once.
func (a *account) ended(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d calls have ended", n), func() bool {
		usage, err := a.control.Usage(t.Context(), a.id, 0)
		return err == nil && len(usage.RecentCalls) == n
	})
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// open starts a call. Its answer ends with the test.
func (a *account) open(ctx context.Context, t *testing.T, c httpClient, method, path string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	must(t, err)
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := c.Do(request)
	must(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// call makes a call and returns the answer and its body.
func (a *account) call(t *testing.T, c httpClient, method, path string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	response := a.open(t.Context(), t, c, method, path, body, header...)
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response, string(text)
}

// unreachable checks the answer for a service that did not answer.
func unreachable(t *testing.T, response *http.Response, text, endpoint string) {
	t.Helper()
	if response.StatusCode != http.StatusBadGateway && response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, `"code":"upstream_unreachable"`) {
		t.Errorf("got %d %s, want 502 or 503 with upstream_unreachable", response.StatusCode, text)
	}
	if want := fmt.Sprintf(`"%s";r=%d;`, endpoint, limit); !strings.HasPrefix(response.Header.Get("RateLimit"), want) {
		t.Errorf("got RateLimit %q, want %s", response.Header.Get("RateLimit"), want)
	}
}

// must fails a test.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
