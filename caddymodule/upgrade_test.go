package caddymodule_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// live are options with an endpoint that takes WebSockets.
const live = `
		guard /api/
		endpoint live GET /api/live {
			upgrade
		}
		endpoint convert GET /api/convert/{from}/{amount}/{to}
		plan free
		plan small {
			live 2
			convert 5
		}
`

// echo is a WebSocket server that greets and sends back what it gets. To
// plain requests it answers 200.
func echo(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			w.WriteHeader(http.StatusOK)
			return
		}
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
		if err != nil {
			t.Errorf("accepting a WebSocket: %v", err)
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(2 << 20)
		ctx := context.WithoutCancel(r.Context()) // the connection is hijacked
		for kind, message := websocket.MessageText, []byte("hello"); err == nil; kind, message, err = conn.Read(ctx) {
			if err = conn.Write(ctx, kind, message); err != nil {
				return
			}
		}
	}
}

// openSocket opens a WebSocket, or returns why it could not and the
// answer.
func (s *site) openSocket(t *testing.T, target, bearer string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	header := http.Header{}
	if bearer != "" {
		header.Set("Authorization", "Bearer "+bearer)
	}
	conn, response, err := websocket.Dial(t.Context(), "ws://gate.test"+target, &websocket.DialOptions{
		HTTPClient: s.client, HTTPHeader: header, Subprotocols: []string{"chat"},
	})
	if err == nil {
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, response, err
}

func say(t *testing.T, conn *websocket.Conn, kind websocket.MessageType, message string) {
	t.Helper()
	if err := conn.Write(t.Context(), kind, []byte(message)); err != nil {
		t.Fatalf("writing: %v", err)
	}
	hear(t, conn, kind, message)
}

func hear(t *testing.T, conn *websocket.Conn, kind websocket.MessageType, message string) {
	t.Helper()
	gotKind, got, err := conn.Read(t.Context())
	if err != nil || gotKind != kind || string(got) != message {
		t.Fatalf("got %v %.20q, want %v %.20q (%v)", gotKind, got, kind, message, err)
	}
}

// TestWebSocketOnEndpoint has messages both ways and is one call, which is
// recorded while the connection is open.
func TestWebSocketOnEndpoint(t *testing.T) {
	s := start(t, setup{zone: calmZone(), gate: live, upstream: echo(t)})
	id, bearer := s.account(t, "small", "live")
	conn, response, err := s.openSocket(t, "/api/live?room=1", bearer)
	if err != nil {
		t.Fatal(err)
	}
	if h := response.Header; !strings.HasPrefix(h.Get("Ratelimit"), `"live";r=1;`) || h.Get("Ratelimit-Policy") == "" || h.Get("Cache-Control") != "no-store" || conn.Subprotocol() != "chat" {
		t.Errorf("got %v", h)
	}
	r, _ := s.upstream.last(t)
	if r.Header.Get("Tollgate-Account") != id || r.Header.Get("Authorization") != "" || r.URL.RequestURI() != "/api/live?room=1" {
		t.Errorf("the upstream got %s %v", r.URL, r.Header)
	}
	conn.SetReadLimit(2 << 20)
	hear(t, conn, websocket.MessageText, "hello")
	say(t, conn, websocket.MessageText, "one")
	say(t, conn, websocket.MessageBinary, strings.Repeat("\x00\xff", 500_000))
	recent, err := s.store(t).Recent(t.Context(), id, time.Now())
	if err != nil || len(recent) != 1 || recent[0].Status != http.StatusSwitchingProtocols || s.used(t, id, "live") != 1 {
		t.Errorf("got %+v (%v) with %d counted, want one call", recent, err, s.used(t, id, "live"))
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Errorf("closing: %v", err)
	}
	if got := s.get(t, "/api/live", bearer); got.status != http.StatusOK {
		t.Errorf("a plain request got %+v", got)
	}
	recent, err = s.store(t).Recent(t.Context(), id, time.Now())
	if err != nil || len(recent) != 2 || s.used(t, id, "live") != 2 {
		t.Errorf("got %+v (%v) with %d counted, want two calls", recent, err, s.used(t, id, "live"))
	}
}

// TestWebSocketRefused: the upstream sees no handshake of a client that
// may not make one.
func TestWebSocketRefused(t *testing.T) {
	s := start(t, setup{zone: calmZone(), gate: live, upstream: echo(t)})
	id, bearer := s.account(t, "small", "live", "convert")
	_, free := s.account(t, "free", "live")
	for range 2 {
		if _, _, err := s.openSocket(t, "/api/live", bearer); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		target, bearer string
		status         int
	}{
		"no token":                    {"/api/live", "", 401},
		"unknown token":               {"/api/live", "tgk_junk", 401},
		"plan without access":         {"/api/live", free, 403},
		"quota used up":               {"/api/live", bearer, 429},
		"endpoint without the option": {convert, bearer, 400},
		"the same without a token":    {convert, "", 400},
		"nothing there":               {"/api/nothing", bearer, 404},
	} {
		_, response, err := s.openSocket(t, c.target, c.bearer)
		if err == nil || response == nil || response.StatusCode != c.status {
			t.Errorf("%s: got %v (%v), want %d", name, response, err, c.status)
		}
	}
	if s.upstream.seen() != 2 || s.used(t, id, "live") != 2 || s.used(t, id, "convert") != 0 {
		t.Errorf("the upstream saw %d, counted %d and %d", s.upstream.seen(), s.used(t, id, "live"), s.used(t, id, "convert"))
	}
}

// TestUpgradeNotAllowed refuses what asks for an upgrade, costs nothing,
// and takes no plain request for one.
func TestUpgradeNotAllowed(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	id, bearer := s.account(t, "small")
	for name, c := range map[string]struct {
		headers []string
		refused bool
	}{
		"WebSocket":                  {[]string{"Connection: Upgrade", "Upgrade: websocket"}, true},
		"in other case":              {[]string{"Connection: keep-alive, uPGRADE", "Upgrade: WebSocket"}, true},
		"another protocol":           {[]string{"Connection: Upgrade", "Upgrade: my-protocol/2"}, true},
		"in a list":                  {[]string{"Connection: Upgrade", "Upgrade: h2c, websocket"}, true},
		"HTTP/2, as Java's clients":  {[]string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAA"}, false},
		"TLS":                        {[]string{"Connection: Upgrade", "Upgrade: TLS/1.3"}, false},
		"Upgrade without Connection": {[]string{"Upgrade: websocket"}, false},
		"Connection without Upgrade": {[]string{"Connection: Upgrade"}, false},
		"empty":                      {[]string{"Connection: Upgrade", "Upgrade: "}, false},
	} {
		t.Run(name, func(t *testing.T) {
			before, seen := s.used(t, id, "convert"), s.upstream.seen()
			answer := send(t, s, "GET "+convert+" HTTP/1.1", strings.Join(c.headers, "\r\n")+"\r\nAuthorization: Bearer "+bearer+"\r\n", "")
			calls, requests := s.used(t, id, "convert")-before, s.upstream.seen()-seen
			if c.refused {
				if !strings.HasPrefix(answer, "HTTP/1.1 400") || !strings.Contains(answer, `"code":"upgrade_not_allowed"`) || calls != 0 || requests != 0 {
					t.Errorf("got %s with %d counted and %d requests at the upstream", answer, calls, requests)
				}
				return
			}
			if !strings.HasPrefix(answer, "HTTP/1.1 200") || calls != 1 || requests != 1 {
				t.Errorf("got %s with %d counted and %d requests at the upstream", answer, calls, requests)
			}
			if r, _ := s.upstream.last(t); r.Header.Get("Upgrade") != "" || r.Header.Get("Http2-Settings") != "" {
				t.Errorf("the upstream got %v", r.Header)
			}
		})
	}
}

// TestEscapeOnEndpointWithUpgrade: the option lets nothing through that
// would take the connection away from the gate.
func TestEscapeOnEndpointWithUpgrade(t *testing.T) {
	s := start(t, setup{zone: calmZone(), gate: live, upstream: echo(t)})
	_, bearer := s.account(t, "small", "live")
	for protocol, want := range map[string]string{"h2c": "200", "TLS/1.2": "200", "websocket, h2c": "400"} {
		answer := send(t, s, "GET /api/live HTTP/1.1", "Connection: Upgrade\r\nUpgrade: "+protocol+"\r\nAuthorization: Bearer "+bearer+"\r\n", "")
		if !strings.HasPrefix(answer, "HTTP/1.1 "+want) {
			t.Errorf("%s: got %s, want %s", protocol, answer, want)
		}
	}
}

// TestWebSocketOutside needs no token.
func TestWebSocketOutside(t *testing.T) {
	s := start(t, setup{upstream: echo(t)})
	conn, response, err := s.openSocket(t, "/live", "")
	if err != nil {
		t.Fatal(err)
	}
	if response.Header.Get("Ratelimit") != "" {
		t.Errorf("got %v", response.Header)
	}
	hear(t, conn, websocket.MessageText, "hello")
	say(t, conn, websocket.MessageText, "one")
}
