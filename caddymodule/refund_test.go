package caddymodule_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadAddress refuses every connection. A port that was free a moment ago
// could be in use by another test by now; no test gets port 1.
const deadAddress = "127.0.0.1:1"

// TestRefund gives back calls without an answer, once, and by default
// no others.
func TestRefund(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	hangUp := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	type want struct {
		status int
		code   string
		used   map[string]int64 // by refund rule
	}
	always := func(n int64) map[string]int64 {
		return map[string]int64{"unreachable": n, "server_errors": n, "never": n}
	}
	unless := map[string]int64{"unreachable": 1, "server_errors": 1, "never": 2}
	cases := map[string]struct {
		behind   string
		upstream http.HandlerFunc
		want     want
	}{
		"dial error":         {behind: "reverse_proxy " + deadAddress, want: want{502, "upstream_unreachable", unless}},
		"no upstream":        {behind: "reverse_proxy {\ndynamic a localhost 1 {\nversions ipv6\n}\n}", want: want{503, "upstream_unreachable", unless}},
		"hangs up":           {upstream: hangUp, want: want{502, "upstream_unreachable", unless}},
		"no answer in time":  {upstream: hang, behind: "reverse_proxy UPSTREAM {\ntransport http {\nresponse_header_timeout 50ms\n}\n}", want: want{504, "upstream_timeout", unless}},
		"upstream says 502":  {upstream: status(502), want: want{502, "", map[string]int64{"unreachable": 2, "server_errors": 1, "never": 2}}},
		"upstream says 500":  {upstream: status(500), want: want{500, "", map[string]int64{"unreachable": 2, "server_errors": 1, "never": 2}}},
		"upstream says 404":  {upstream: status(404), want: want{404, "", always(2)}},
		"upstream says 429":  {upstream: status(429), want: want{429, "", always(2)}},
		"another error":      {behind: "error 500", want: want{500, "", map[string]int64{"unreachable": 2, "server_errors": 1, "never": 2}}},
		"a firewall":         {behind: "error 403", want: want{403, "", unless}},
		"a rate limit":       {behind: "error 429", want: want{429, "", unless}},
		"a login":            {behind: "error 401", want: want{401, "", always(2)}},
		"error of a handler": {behind: "error 404", want: want{404, "", always(2)}},
		"error of the proxy": {upstream: status(200), behind: "reverse_proxy UPSTREAM {\nhandle_response {\nerror 403\n}\n}", want: want{403, "", always(2)}},
		"no answer":          {behind: "vars x y", want: want{200, "", always(2)}},
	}
	for _, rule := range []string{"unreachable", "server_errors", "never"} {
		for name, c := range cases {
			t.Run(rule+"/"+name, func(t *testing.T) {
				s := start(t, setup{zone: calmZone(), more: "refund " + rule})
				id, bearer := s.account(t, "small")
				s.get(t, convert, bearer) // one that stands, so that giving back twice would show
				s.upstream.answers(c.upstream)
				if c.behind != "" {
					s.behind = strings.ReplaceAll(c.behind, "UPSTREAM", s.upstream.address())
					if err := s.reload(); err != nil {
						t.Fatal(err)
					}
				}
				got := s.get(t, convert, bearer)
				if got.status != c.want.status || got.code() != c.want.code {
					t.Errorf("got %+v, want %d %q", got, c.want.status, c.want.code)
				}
				used := s.used(t, id, "convert")
				if used != c.want.used[rule] {
					t.Errorf("counted %d, want %d", used, c.want.used[rule])
				}
				// What the client is told has the call given back.
				if limit := got.header.Get("Ratelimit"); !strings.HasPrefix(limit, fmt.Sprintf(`"convert";r=%d;`, 5-used)) {
					t.Errorf("got RateLimit %q with %d counted", limit, used)
				}
				if cc := got.header.Get("Cache-Control"); cc != "no-store" || got.header.Get("Vary") != "Authorization" {
					t.Errorf("got Cache-Control %q, Vary %q", cc, got.header.Get("Vary"))
				}
				recent, err := s.store(t).Recent(t.Context(), id, time.Now())
				if err != nil || len(recent) != 2 || recent[0].Status != c.want.status {
					t.Errorf("got recent calls %+v (%v)", recent, err)
				}
			})
		}
	}
}

// TestRefundPassed leaves the wording to handle_errors and gives back all
// the same.
func TestRefundPassed(t *testing.T) {
	s := start(t, setup{zone: calmZone(), more: "errors pass", behind: "reverse_proxy " + deadAddress + "\nhandle_errors {\nrespond \"mine {err.status_code}\"\n}"})
	id, bearer := s.account(t, "small")
	got := s.get(t, convert, bearer)
	if got.status != 502 || got.body != "mine 502" || got.header.Get("Cache-Control") != "no-store" || s.used(t, id, "convert") != 0 {
		t.Errorf("got %+v with %d counted", got, s.used(t, id, "convert"))
	}
}

// TestAnswerThatBreaksOff is not given back: the upstream answered.
func TestAnswerThatBreaksOff(t *testing.T) {
	s := start(t, setup{zone: calmZone(), upstream: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.Write(make([]byte, 10))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}})
	id, bearer := s.account(t, "small")
	if got, err := s.try(t.Context(), "GET", convert, "", "Authorization: Bearer "+bearer); err == nil {
		t.Errorf("got %+v, want the connection to break off", got)
	}
	eventually(t, "the call is recorded", func() bool {
		recent, err := s.store(t).Recent(t.Context(), id, time.Now())
		return err == nil && len(recent) == 1 && recent[0].Status == 200
	})
	if n := s.used(t, id, "convert"); n != 1 {
		t.Errorf("counted %d, want 1", n)
	}
}

// TestClientGoesAway pays for the call: the upstream was at work.
func TestClientGoesAway(t *testing.T) {
	arrived := make(chan struct{})
	s := start(t, setup{zone: calmZone(), upstream: func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	}})
	id, bearer := s.account(t, "small")
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if got, err := s.try(ctx, "GET", convert, "", "Authorization: Bearer "+bearer); err == nil {
		t.Errorf("got %+v", got)
	}
	eventually(t, "the call is recorded", func() bool {
		recent, err := s.store(t).Recent(t.Context(), id, time.Now())
		return err == nil && len(recent) == 1 && recent[0].Status == 499
	})
	if n := s.used(t, id, "convert"); n != 1 {
		t.Errorf("counted %d, want 1", n)
	}
}

// TestBrokenBody does not give a call back whose client broke off in the
// middle of the request: it could call for nothing as often as it likes.
func TestBrokenBody(t *testing.T) {
	for name, rest := range map[string]string{
		"too short":     "Content-Length: 100\r\n\r\n{\"conversions\":[]}",
		"broken chunks": "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, setup{zone: calmZone(), more: "refund server_errors"})
			id, bearer := s.account(t, "starter", "convert")
			conn, err := s.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /api/convert/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s", bearer, rest)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the call is recorded", func() bool {
				recent, err := s.store(t).Recent(t.Context(), id, time.Now())
				return err == nil && len(recent) == 1
			})
			if n := s.used(t, id, "batch"); n != 1 {
				t.Errorf("counted %d, want 1", n)
			}
		})
	}
}

// TestUpstreamComesBack asks an upstream again that did not answer once.
func TestUpstreamComesBack(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	id, bearer := s.account(t, "small")
	address := s.upstream.address()
	s.upstream.server.Close()
	if got := s.get(t, convert, bearer); got.status != 502 {
		t.Errorf("got %+v", got)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	again := httptest.NewUnstartedServer(s.upstream)
	again.Listener.Close()
	again.Listener = listener
	again.Start()
	defer again.Close()
	if got := s.get(t, convert, bearer); got.status != 200 || s.used(t, id, "convert") != 1 {
		t.Errorf("got %+v with %d counted, want 200 with 1", got, s.used(t, id, "convert"))
	}
}
