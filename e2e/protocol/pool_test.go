package protocol_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// pools are endpoints with two services. Caddy retries, or asks for their
// health.
func pools(t *testing.T) protocol {
	retrying, checking := newPool(t), newPool(t)
	return protocol{
		endpoints: append(retrying.endpoints("retry", ""), checking.endpoints("check", "health_uri /health\nhealth_interval 50ms")...),
		test: func(t *testing.T, s *site) {
			t.Run("retries", func(t *testing.T) { retrying.test(t, s, "retry") })
			t.Run("health checks", func(t *testing.T) { checking.test(t, s, "check") })
		},
	}
}

// pool is two services, by their address.
type pool map[string]*service

func newPool(t *testing.T) pool {
	p := pool{}
	var dropped atomic.Bool
	for range 2 {
		s := newService(t, nil)
		address := s.Listener.Addr().String()
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/drop") && !dropped.Swap(true) {
				panic(http.ErrAbortHandler)
			}
			fmt.Fprint(w, address)
			if strings.HasSuffix(r.URL.Path, "/open") {
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		})
		p[address] = s
	}
	return p
}

// endpoints are one that answers, one that breaks off its first call without
// an answer, and one that keeps its answer open.
func (p pool) endpoints(name, options string) []endpoint {
	var addresses []string
	for address := range p {
		addresses = append(addresses, address)
	}
	behind := fmt.Sprintf("reverse_proxy %s {\nlb_policy round_robin\nlb_try_duration 500ms\nlb_try_interval 20ms\n%s\n}", strings.Join(addresses, " "), options)
	return []endpoint{
		{name: name, method: "GET", path: "/api/" + name, behind: behind},
		{name: name + "_drop", method: "GET", path: "/api/" + name + "/drop", behind: behind},
		{name: name + "_open", method: "GET", path: "/api/" + name + "/open", behind: behind},
	}
}

func (p pool) test(t *testing.T, s *site, name string) {
	const calls = 10
	a := s.account(t, "large")
	path := "/api/" + name
	answered := func() (by map[string]int) {
		t.Helper()
		by = map[string]int{}
		for range calls {
			response, text := a.call(t, s.plain(), "GET", path, nil)
			if response.StatusCode != http.StatusOK {
				t.Errorf("got %d %s", response.StatusCode, text)
			}
			by[text]++
		}
		return by
	}
	if by := answered(); len(by) != 2 {
		t.Errorf("got the services %v, want both", by)
	}
	a.expect(t, name, calls)

	// The retry of a call is the same call.
	if response, text := a.call(t, s.plain(), "GET", path+"/drop", nil); response.StatusCode != http.StatusOK {
		t.Errorf("got %d %s", response.StatusCode, text)
	}
	a.expect(t, name+"_drop", 1)

	// One service dies in the middle of an answer.
	response := a.open(t.Context(), t, s.plain(), "GET", path+"/open", nil)
	first := make([]byte, len("127.0.0.1:10000"))
	n, err := response.Body.Read(first)
	if err != nil {
		t.Fatal(err)
	}
	address := string(first[:n])
	p[address].kill()
	delete(p, address)
	if rest, err := io.ReadAll(response.Body); err == nil {
		t.Errorf("got %q, want an error", rest)
	}
	a.ended(t, calls+2)
	a.expect(t, name+"_open", 1)

	if by := answered(); by[address] != 0 || len(by) != 1 {
		t.Errorf("got the services %v, want the other one", by)
	}
	a.expect(t, name, 2*calls)

	for _, last := range p {
		last.kill()
	}
	response, text := a.call(t, s.plain(), "GET", path, nil)
	if response.StatusCode != http.StatusBadGateway && response.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "upstream_unreachable") {
		t.Errorf("got %d %s with no service", response.StatusCode, text)
	}
	a.expect(t, name, 2*calls)
}
