package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// openGate takes calls without a key. It believes X-Forwarded-For of the address
// 127.0.0.2 only, which no test has, or of 127.0.0.1.
const openGate = `{
	admin {$CADDY_ADMIN}
	servers {
		trusted_proxies static {$TRUSTED}
		trusted_proxies_strict
	}
	tollgate {
		store STORE
		secret {env.TOLLGATE_SECRET}
		timezone {$TOLLGATE_TIMEZONE}
		usage GET /api/usage
		docs /docs
		cors https://app.example.com
		endpoint api GET /v1/{path...}
		endpoint other GET /other
		plan public {
			api 1000
		}
		anonymous public {
			per_address 20 day
			per_address 1000 hour
		}
	}
}
{$TOLLGATE_ADDRESS} {
	tollgate
	respond "{http.auth.user.id}"
}
`

// comes makes calls from an address over many connections at once, and returns
// how many of them had each answer.
func comes(t *testing.T, gates []*stack.Stack, calls int, header ...string) map[string]int {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	answers := map[string]int{}
	for i := range calls {
		group.Go(func() {
			got := "error"
			r, err := http.NewRequestWithContext(t.Context(), "GET", gates[i%len(gates)].Address+"/v1/items", nil)
			for i := 0; i < len(header); i += 2 {
				r.Header.Set(header[i], header[i+1])
			}
			var answer *http.Response
			if err == nil {
				answer, err = http.DefaultClient.Do(r)
			}
			if err == nil {
				var body struct{ Code, Of string }
				_ = json.NewDecoder(answer.Body).Decode(&body)
				answer.Body.Close()
				got = strings.Join(strings.Fields(http.StatusText(answer.StatusCode)+" "+body.Code+" "+body.Of), " ")
			}
			mu.Lock()
			defer mu.Unlock()
			answers[got]++
		})
	}
	group.Wait()
	return answers
}

const ofAddress = "Too Many Requests quota_exceeded address"

// TestAnonymous calls a gate without a key: an address has exactly its calls over
// 64 connections. A reload and a stop keep the counts. A kill loses those of the
// last minute of each address, and no call of the account.
func TestAnonymous(t *testing.T) {
	t.Parallel()
	s := stack.StartGate(t, strings.Replace(openGate, "STORE", `badger "{$TOLLGATE_DATA}/gate"`, 1), "TRUSTED=127.0.0.1/32")
	gate, from := []*stack.Stack{s}, "X-Forwarded-For"
	expect := func(what string, admitted, refused int, header ...string) {
		t.Helper()
		got := comes(t, gate, admitted+refused, header...)
		if got["OK"] != admitted || got[ofAddress] != refused {
			t.Errorf("%s: got %v, want %d and %d", what, got, admitted, refused)
		}
	}
	expect("at once", 20, 44, from, "203.0.113.1")
	expect("a part", 15, 0, from, "2001:db8::1")
	must(t, s.Reload())
	expect("after a reload", 0, 5, from, "203.0.113.1")
	if code := s.StopCaddy(); code != 0 {
		t.Errorf("stopped with %d", code)
	}
	s.StartCaddy()
	expect("after a stop", 0, 5, from, "::ffff:203.0.113.1")
	expect("after a stop, a part", 5, 3, from, "2001:db8::2:0:0:1")
	expect("another address", 20, 2, from, "203.0.113.2")
	s.KillCaddy()
	s.StartCaddy()
	expect("after a kill, saved", 0, 5, from, "203.0.113.1")
	expect("after a kill, not saved", 20, 2, from, "203.0.113.2")
	var usage struct {
		Endpoints []struct {
			Endpoint string
			Used     int
		}
	}
	text := s.Tollgate("usage", "show", "anonymous", "--json")
	if err := json.Unmarshal([]byte(text), &usage); err != nil || len(usage.Endpoints) == 0 || usage.Endpoints[0].Used != 80 {
		t.Errorf("got the usage %s, %v, want 80 calls", text, err)
	}
	for _, header := range [][]string{{"Authorization", "Bearer tgk_x"}, {"Authorization", "Basic YTpi"}, {"Authorization", ""}} {
		if got := comes(t, gate, 1, append(header, from, "203.0.113.3")...); got["Unauthorized invalid_token"]+got["Unauthorized unauthenticated"] != 1 {
			t.Errorf("%q: got %v", header, got)
		}
	}
	answer, body := s.Call("GET", "/other", "", nil)
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("an endpoint of no plan: got %d %s", answer.StatusCode, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.Address+"/v1/items", nil)
	must(t, err)
	r.Header = http.Header{"Origin": {"https://app.example.com"}, from: {"203.0.113.2"}, "Accept": {"text/html"}}
	page, err := http.DefaultClient.Do(r)
	must(t, err)
	page.Body.Close()
	if h := page.Header; page.StatusCode != 429 || h.Get("Access-Control-Allow-Origin") == "" || h.Get("Link") != `</docs>; rel="service-doc"` || !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		t.Errorf("a page: got %d %v", page.StatusCode, h)
	}
}

// Threat: a client says that it is another address. Expected: only a trusted
// proxy can say that.
func TestAnonymousForgesNoAddress(t *testing.T) {
	t.Parallel()
	s := stack.StartGate(t, strings.Replace(openGate, "STORE", `badger "{$TOLLGATE_DATA}/gate"`, 1), "TRUSTED=127.0.0.2/32")
	admitted := 0
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Cf-Connecting-Ip", "True-Client-Ip"} {
		for _, address := range []string{"203.0.113.1", "203.0.113.2", "for=203.0.113.3", "2001:db8::1", "203.0.113.4, 203.0.113.5"} {
			admitted += comes(t, []*stack.Stack{s}, 1, name, address)["OK"]
		}
	}
	if admitted != 20 {
		t.Errorf("admitted %d calls, want 20", admitted)
	}
}

// TestAnonymousSeveralGates calls two gates that share a Redis server. An address
// has its calls once. While the server is away, calls get 503.
func TestAnonymousSeveralGates(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "appendonly yes", "appendfsync always")
	s := stack.StartGate(t, strings.Replace(openGate, "STORE", "redis "+redis.URL(), 1), "TRUSTED=127.0.0.1/32")
	gates := []*stack.Stack{s, s.Join()}
	if got := comes(t, gates, 64, "X-Forwarded-For", "203.0.113.1"); got["OK"] != 20 || got[ofAddress] != 44 {
		t.Errorf("two gates: got %v, want 20 and 44", got)
	}
	must(t, redis.Kill())
	if got := comes(t, gates, 10, "X-Forwarded-For", "203.0.113.1"); got["Service Unavailable unavailable"] != 10 {
		t.Errorf("without redis: got %v", got)
	}
	must(t, redis.Restart())
	eventually(t, "the first address to be refused again", func() error {
		if got := comes(t, gates, 10, "X-Forwarded-For", "203.0.113.1"); got[ofAddress] != 10 {
			return fmt.Errorf("got %v", got)
		}
		return nil
	})
	if got := comes(t, gates, 30, "X-Forwarded-For", "203.0.113.2"); got["OK"] != 20 || got[ofAddress] != 10 {
		t.Errorf("another address: got %v, want 20 and 10", got)
	}
}
