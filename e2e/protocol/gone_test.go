package protocol_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// leaver is a client of its own for one request, which leaves in one of the ways
// that its protocol has.
type leaver struct {
	httpClient
	sync.Mutex              // of what dialling sets
	close      func()       // the connection, with what the protocol says about it
	vanish     func()       // without a word of HTTP/3, with a reset of TCP
	write      func([]byte) // to the connection, if it has no TLS
	stream     func()       // of HTTP/3: opens a second control stream, an error of the protocol
}

// leaver makes a client like c.
func (c httpClient) leaver(t *testing.T) *leaver {
	l := &leaver{httpClient: c}
	if c.major == 3 {
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		must(t, err)
		carrier := &quic.Transport{Conn: udp}
		t.Cleanup(func() { carrier.Close(); udp.Close() })
		dial := func(ctx context.Context, address string, security *tls.Config, options *quic.Config) (*quic.Conn, error) {
			to, err := net.ResolveUDPAddr("udp4", address)
			if err != nil {
				return nil, err
			}
			conn, err := carrier.Dial(ctx, to, security, options)
			if err != nil {
				return nil, err
			}
			l.Lock()
			defer l.Unlock()
			l.close = func() { conn.CloseWithError(0, "") }
			l.vanish = func() { udp.Close() }
			l.stream = func() {
				if control, err := conn.OpenUniStream(); err == nil {
					control.Write([]byte{0})
				}
			}
			return conn, nil
		}
		transport := &http3.Transport{TLSClientConfig: c.Transport.(*http3.Transport).TLSClientConfig, Dial: dial, QUICConfig: &quic.Config{MaxIdleTimeout: 300 * time.Millisecond}}
		t.Cleanup(func() { transport.Close() })
		l.Client = &http.Client{Transport: transport}
		return l
	}
	transport := c.Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			l.Lock()
			defer l.Unlock()
			l.close = func() { conn.Close() }
			l.vanish = func() { conn.(*net.TCPConn).SetLinger(0); conn.Close() }
			l.write = func(b []byte) { conn.Write(b) }
		}
		return conn, err
	}
	t.Cleanup(transport.CloseIdleConnections)
	l.Client = &http.Client{Transport: transport}
	return l
}

// goAway is the frame GOAWAY of HTTP/2 (RFC 9113, section 6.8).
var goAway = append([]byte{0, 0, 8, 7, 0}, make([]byte, 12)...)

// ways are the ways to leave. cancel resets the stream, where there are streams.
var ways = map[string]struct {
	has   func(httpClient) bool
	leave func(l *leaver, cancel func())
}{
	"reset":              {nil, func(_ *leaver, cancel func()) { cancel() }},
	"close":              {nil, func(l *leaver, _ func()) { l.close() }},
	"reset and close":    {nil, func(l *leaver, cancel func()) { cancel(); l.close() }},
	"vanish":             {func(c httpClient) bool { return c.major == 1 }, func(l *leaver, _ func()) { l.vanish() }},
	"GOAWAY":             {func(c httpClient) bool { return c.name == "HTTP/2 without TLS" }, func(l *leaver, _ func()) { l.write(goAway); l.close() }},
	"break the protocol": {func(c httpClient) bool { return c.major == 3 }, func(l *leaver, _ func()) { l.stream() }},
}

// attempt sends a request that leaves when the service has it. It returns 0
// then, or else the status of the answer.
func (l *leaver) attempt(t *testing.T, r *http.Request, arrived <-chan struct{}, leave func(*leaver, func())) (status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answered := make(chan int, 1)
	go func() {
		response, err := l.Do(r.WithContext(ctx))
		if err != nil {
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	select {
	case <-arrived:
		l.Lock()
		leave(l, cancel)
		l.Unlock()
		<-answered
		return 0
	case status = <-answered:
		if status == 0 {
			t.Fatal("no answer before the service was asked")
		}
		return status
	}
}

// blames finds a line about an outage of the service, or about its end.
var blames = regexp.MustCompile(`calling the upstream( to log in| outside endpoints|.*"endpoint":"late)`)

// departures are clients that leave before the answer.
func departures(t *testing.T) protocol {
	// The body is read: the server then sees that the connection is closed.
	late := newService(t, func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) })
	return protocol{
		endpoints: []endpoint{
			{name: "late", method: "POST", path: "/api/late", behind: proxy(late.Server)},
			{name: "late_retry", method: "GET", path: "/api/late/retry", behind: proxy(late.Server) + " {\nlb_try_duration 200ms\nlb_try_interval 50ms\n}"},
			{name: "late_cost", method: "GET", path: "/api/late/cost", block: "{\ncost answer Tollgate-Cost reserve 10\n}", behind: proxy(late.Server)},
			{name: "late_down", method: "GET", path: "/api/late/down", behind: "reverse_proxy " + deadAddress + " {\nlb_try_duration 200ms\nlb_try_interval 50ms\n}"},
			{path: "/api/login", behind: proxy(late.Server)},
			{path: "/late", behind: proxy(late.Server)},
		},
		test: func(t *testing.T, s *site) {
			eventually(t, "the site has a certificate", func() bool {
				response, err := s.clients[len(s.clients)-1].Get(s.secure + "/api/usage")
				if err == nil {
					response.Body.Close()
				}
				return err == nil
			})
			eachWay(t, s, func(t *testing.T, c httpClient, leave func(*leaver, func())) {
				leaveCalls(t, s, c, "late", "POST /api/late", 40, 1, late.arrived, leave)
				leaveCalls(t, s, c, "late_retry", "GET /api/late/retry", 8, 1, late.arrived, leave)
				leaveCalls(t, s, c, "late_cost", "GET /api/late/cost", 8, 10, late.arrived, leave)
				leaveLogins(t, s, c, late.arrived, leave)
				leaveOpen(t, s, c, late.arrived, leave)
			})
			t.Run("HTTP/3 without a word", func(t *testing.T) {
				leaveCalls(t, s, s.clients[len(s.clients)-1], "late", "POST /api/late", 1, 1, late.arrived, func(l *leaver, _ func()) { l.vanish() })
			})
			for line := range strings.Lines(s.Log()) {
				if blames.MatchString(line) {
					t.Errorf("the log blames the service, or says that it works again: %s", line)
				}
			}
			// A client that waits gets its call back.
			s.each(t, func(t *testing.T, c httpClient) {
				a := s.account(t, "large")
				response, text := a.call(t, c, "GET", "/api/late/down", nil)
				unreachable(t, response, text, "late_down")
				a.expect(t, "late_down", 0)
			})
		},
	}
}

func eachWay(t *testing.T, s *site, test func(*testing.T, httpClient, func(*leaver, func()))) {
	s.each(t, func(t *testing.T, c httpClient) {
		for name, way := range ways {
			if way.has == nil || way.has(c) {
				t.Run(name, func(t *testing.T) { test(t, c, way.leave) })
			}
		}
	})
}

// leaveCalls leaves calls one after another: of 40 calls under a limit of 5, the
// service gets 5.
func leaveCalls(t *testing.T, s *site, c httpClient, endpoint, line string, calls int, cost int64, arrived <-chan struct{}, leave func(*leaver, func())) {
	a, want := s.account(t, "five"), min(calls, 5)
	method, path, _ := strings.Cut(line, " ")
	reached := 0
	for n := range calls {
		r, err := http.NewRequest(method, c.base+path, http.NoBody)
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+a.token)
		switch status := c.leaver(t).attempt(t, r, arrived, leave); status {
		case 0:
			reached++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("got %d", status)
		}
		a.ended(t, n+1)
	}
	if reached != want {
		t.Errorf("%s: %d calls of %d reached the service, want %d", line, reached, calls, want)
	}
	a.expect(t, endpoint, int64(want)*cost)
	usage, err := a.control.Usage(t.Context(), a.id, 0)
	must(t, err)
	left := 0
	for _, call := range usage.RecentCalls {
		if call.Status == 499 && call.Cost == cost && call.Code == "" {
			left++
		}
	}
	if left != want {
		t.Errorf("%s: %d calls are recorded with 499 and their cost, want %d: %+v", line, left, want, usage.RecentCalls)
	}
	must(t, a.control.DeleteAccount(t.Context(), a.id))
}

// leaveLogins leaves login attempts at one account. Two of them may fail, and
// then it has to wait: an attempt whose client leaves does not give its place
// back.
func leaveLogins(t *testing.T, s *site, c httpClient, arrived <-chan struct{}, leave func(*leaver, func())) {
	reached := 0
	for range 6 {
		r, err := http.NewRequest("POST", c.base+"/api/login", strings.NewReader(fmt.Sprintf(`{"email":%q,"password":"x"}`, strings.ReplaceAll(t.Name(), " ", "_")+"@example.com")))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		before := len(s.logged(t, "/api/login"))
		switch status := c.leaver(t).attempt(t, r, arrived, leave); status {
		case 0:
			reached++
		case http.StatusTooManyRequests:
		default:
			t.Errorf("got %d", status)
		}
		eventually(t, "the login is logged", func() bool { return len(s.logged(t, "/api/login")) == before+1 })
	}
	if reached != 2 {
		t.Errorf("%d login attempts reached the service, want 2", reached)
	}
}

// leaveOpen leaves a request to an open path.
func leaveOpen(t *testing.T, s *site, c httpClient, arrived <-chan struct{}, leave func(*leaver, func())) {
	before := len(s.logged(t, "/late"))
	r, err := http.NewRequest("GET", c.base+"/late", http.NoBody)
	must(t, err)
	if status := c.leaver(t).attempt(t, r, arrived, leave); status != 0 {
		t.Errorf("got %d", status)
	}
	eventually(t, "the request is logged", func() bool { return len(s.logged(t, "/late")) == before+1 })
	if line := s.logged(t, "/late")[before]; line.Status != 499 {
		t.Errorf("logged the status %d, want 499", line.Status)
	}
}

// logLine is a line of the access log.
type logLine struct {
	Status    int
	Duration  float64
	RequestID string `json:"request_id"`
	Request   struct{ URI string }
	Call      *struct {
		Account, Key, Endpoint, Code string
		Cost                         int64
	}
}

// logged returns the lines of the access log about a path.
func (s *site) logged(t *testing.T, path string) (lines []logLine) {
	t.Helper()
	text, err := os.ReadFile(s.AccessLog())
	must(t, err)
	for line := range bytes.Lines(text) {
		var l logLine
		if bytes.HasSuffix(line, []byte("\n")) {
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			lines = append(lines, l)
		}
	}
	return slices.DeleteFunc(lines, func(l logLine) bool { return l.Request.URI != path })
}
