package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	changing  = regexp.MustCompile(`;[rt]=\d+|,"request_id":"[0-9a-f-]{36}"`)
	different = []string{"Date", "Server", "Via", "Retry-After", "Content-Length"}
)

// reply is what a client gets, without figures that time changes. nginx makes no
// id of a request, which the length includes.
func reply(t *testing.T, s *server, token string) string {
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
	for name, values := range response.Header {
		slices.Sort(values)
		if slices.Contains(different, name) {
			delete(response.Header, name)
		}
	}
	return changing.ReplaceAllString(fmt.Sprintln(response.StatusCode, response.Header, string(body)), "")
}

// nginx answers like a gate in front of the same currency API, and counts
// exactly: a limit of N admits N of many calls at once, over all workers. A peer
// that did less would be faster.
func TestNginx(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("nginx")
	need(t, err)
	b := built(t)
	currency, err := b.startCurrency(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.startNginx(t.Context(), currency)
	if err != nil {
		t.Fatal(err)
	}
	g, err := b.startGate(t.Context(), "sync off", proxyTo(currency))
	if err != nil {
		t.Fatal(err)
	}
	const limit, callers, calls = 100, 16, 20
	tokens := map[int]string{0: "", limit: ""}
	for limit := range tokens {
		if tokens[limit], err = n.createAccount(fmt.Sprintf("limited_%d", limit), planExhausted, int64(limit)); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		nginx, gate string // tokens
		want        string
	}{
		"admitted":  {n.ample[1], g.ample[1], "200"},
		"exhausted": {tokens[0], g.exhausted[1], "429"},
		"unknown":   {g.ample[1], n.ample[1], "401"},
		"no token":  {"", "", "401"},
	} {
		got, want := reply(t, n.server, test.nginx), reply(t, g.server, test.gate)
		if got != want || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: nginx answers\n%s\nthe gate\n%s", name, got, want)
		}
	}
	var admitted, refused atomic.Int64
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for range calls {
				response, err := n.call(t.Context(), tokens[limit])
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
	if admitted.Load() != limit || refused.Load() != callers*calls-limit {
		t.Errorf("%d calls: %d admitted, %d refused, want %d admitted", callers*calls, admitted.Load(), refused.Load(), limit)
	}
	s := n.with(n.ample)
	s.also = append(n.workers, os.Getpid(), n.redis.PID())
	if err := s.load(t.Context(), time.Second); err != nil || s.rounds[0].also <= 0 || s.rounds[0].resident <= 0 || s.rounds[0].rate <= 0 {
		t.Errorf("got %+v, %v", s.rounds, err)
	}
	wantEnded(t, b, append(n.workers, n.pid(), n.redis.PID(), g.pid())...)
}
