package main

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// reply is what a client gets. Figures that time changes are left out.
type reply struct {
	status int
	body   string
	header map[string]string
}

func replyOf(t *testing.T, s *server, token string) reply {
	t.Helper()
	response, err := s.call(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	// Nginx makes no id of a request, which the length includes.
	r := reply{response.StatusCode, requestID.ReplaceAllString(string(body), ""), map[string]string{}}
	for name := range response.Header {
		if !slices.Contains([]string{"Date", "Server", "Via", "Retry-After", "Content-Length"}, name) {
			values := slices.Sorted(slices.Values(response.Header.Values(name)))
			r.header[name] = seconds.ReplaceAllString(strings.Join(values, ", "), "")
		}
	}
	return r
}

var (
	seconds   = regexp.MustCompile(`;[rt]=\d+`)
	requestID = regexp.MustCompile(`,"request_id":"[0-9a-f-]{36}"`)
)

// The peers answer like a gate in front of the same upstream.
func TestNginxAnswersLikeGate(t *testing.T) {
	t.Parallel()
	b := built(t)
	currency, err := b.startCurrency(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.startNginx(t.Context(), currency.address)
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.startGate(t.Context(), "sync off", proxyTo(currency.address))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.check(t.Context()); err != nil {
		t.Error(err)
	}
	unknown, err := unknownTokens()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		nginx, gate string // tokens
		want        int
	}{
		"admitted":  {n.ample[1], g.ample[1], http.StatusOK},
		"exhausted": {n.exhausted[1], g.exhausted[1], http.StatusTooManyRequests},
		"unknown":   {unknown[1], unknown[1], http.StatusUnauthorized},
		"no token":  {"", "", http.StatusUnauthorized},
	} {
		got, want := replyOf(t, n.server, test.nginx), replyOf(t, g.server, test.gate)
		if got.status != want.status || got.status != test.want || got.body != want.body || !maps.Equal(got.header, want.header) {
			t.Errorf("%s: nginx answers\n%+v\nthe gate\n%+v", name, got, want)
		}
	}
	s := &side{server: n.server, also: []int{currency.pid(), n.redis.pid}}
	_, all, err := s.usage()
	if err != nil {
		t.Fatal(err)
	}
	_, master, err := usageOf(n.pid())
	if err != nil {
		t.Fatal(err)
	}
	_, upstream, err := usageOf(currency.pid())
	if err != nil || all.resident < upstream.resident+2*master.proportional {
		t.Errorf("got %+v for all processes, of these %+v for nginx's master and %+v for the upstream, %v", all, master, upstream, err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range append(n.workers, n.pid(), n.redis.pid, currency.pid()) {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
}

// A limit of N admits exactly N of many calls at once, over all workers.
func TestNginxCountsExactly(t *testing.T) {
	t.Parallel()
	const limit, callers, calls = 100, 16, 20
	b := built(t)
	upstream, err := b.startUpstream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.startNginx(t.Context(), upstream)
	if err != nil {
		t.Fatal(err)
	}
	token, err := n.createAccount("few", "few", limit)
	if err != nil {
		t.Fatal(err)
	}
	var admitted, refused atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				response, err := n.call(t.Context(), token)
				if err != nil {
					t.Error(err)
					return
				}
				response.Body.Close()
				switch response.StatusCode {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
			}
		})
	}
	group.Wait()
	counted, err := n.counted("few")
	if err != nil || admitted.Load() != limit || refused.Load() != callers*calls-limit || counted != limit {
		t.Errorf("%d calls: %d admitted, %d refused, %d counted, %v, want %d admitted", callers*calls, admitted.Load(), refused.Load(), counted, err, limit)
	}
}
