package protocol_test

import (
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// sockets are WebSockets. The service greets, and echoes messages. It breaks
// off when it reads "die".
func sockets(t *testing.T) protocol {
	const path = "/api/socket"
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accepting a WebSocket: %v", err)
			return
		}
		defer conn.CloseNow()
		conn.SetReadLimit(2 << 20)
		ctx := context.WithoutCancel(r.Context()) // the connection is hijacked
		for kind, message := websocket.MessageText, []byte("hello"); err == nil && string(message) != "die"; kind, message, err = conn.Read(ctx) {
			if conn.Write(ctx, kind, message) != nil {
				return
			}
		}
	})
	return protocol{
		endpoints: []endpoint{
			{name: "socket", method: "GET", path: path, block: "{\nupgrade\n}", behind: echo},
			{name: "socket_dead", method: "GET", path: path + "/dead", block: "{\nupgrade\n}", behind: "reverse_proxy " + deadAddress},
			{name: "socket_closed", method: "GET", path: path + "/closed", behind: echo},
			{name: "socket_open", path: "/open/socket", behind: echo},
		},
		test: func(t *testing.T, s *site) {
			for _, c := range s.clients[:2] {
				t.Run(c.name, func(t *testing.T) { talk(t, s, c, path) })
			}
			t.Run("the service is dead", func(t *testing.T) {
				a := s.account(t, "large")
				_, response, err := a.socket(t, s.plain(), path+"/dead")
				if err == nil || response == nil || response.StatusCode != http.StatusBadGateway {
					t.Errorf("got %v, %v", response, err)
				}
				a.ended(t, 1)
				a.expect(t, "socket_dead", 0)
			})
			t.Run("an endpoint without upgrade", func(t *testing.T) {
				a := s.account(t, "large")
				_, response, err := a.socket(t, s.plain(), path+"/closed")
				if err == nil || response == nil || response.StatusCode != http.StatusBadRequest {
					t.Errorf("got %v, %v", response, err)
				}
				a.expect(t, "socket_closed", 0)
			})
			t.Run("HTTP/3", func(t *testing.T) { talkOverQUIC(t, s, path) })
		},
	}
}

// talkOverQUIC opens WebSockets over HTTP/3, which are an extended CONNECT
// (RFC 9220). The gate counts one at an endpoint with upgrade, and passes one at
// an open path.
func talkOverQUIC(t *testing.T, s *site, path string) {
	a := s.account(t, "large")
	conn, err := quic.DialAddr(t.Context(), strings.TrimPrefix(s.secure, "https://"), &tls.Config{RootCAs: s.roots, NextProtos: []string{http3.NextProtoH3}}, nil)
	must(t, err)
	t.Cleanup(func() {
		if err := conn.CloseWithError(0, ""); err != nil {
			t.Errorf("closing the connection: %v", err)
		}
	})
	client := new(http3.Transport).NewClientConn(conn)
	bearer := http.Header{"Authorization": {"Bearer " + a.token}}
	for _, c := range []struct {
		path   string
		header http.Header
		status int
	}{
		{path, bearer, 200}, {path, nil, 401}, {path + "/closed", bearer, 400}, {"/api/other", bearer, 404}, {"/open/socket", nil, 200},
	} {
		stream, err := client.OpenRequestStream(t.Context())
		must(t, err)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, s.secure+c.path, http.NoBody)
		must(t, err)
		r.Proto = "websocket"
		r.Header = http.Header{"Sec-Websocket-Version": {"13"}}
		maps.Copy(r.Header, c.header)
		must(t, stream.SendRequestHeader(r))
		response, err := stream.ReadResponse()
		if err != nil || response.StatusCode != c.status {
			t.Fatalf("%s: got %v, %v, want %d", c.path, response, err, c.status)
		}
		if c.status != 200 {
			continue
		}
		// Frames of RFC 6455, section 5.2: a text that is the last frame of its
		// message, with the length and, from the client, a mask.
		got := make([]byte, len("\x81\x05hello\x81\x02hi"))
		if _, err := io.WriteString(stream, "\x81\x82\x00\x00\x00\x00hi"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stream, got); err != nil || string(got) != "\x81\x05hello\x81\x02hi" {
			t.Fatalf("%s: got %q, %v", c.path, got, err)
		}
		if c.header != nil {
			a.ended(t, 1) // it is recorded while it is open
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	}
	a.expect(t, "socket", 1)
	a.expect(t, "socket_closed", 0)
}

// socket opens a WebSocket, or returns the refusal.
func (a *account) socket(t *testing.T, c httpClient, path string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + a.token}}
	conn, response, err := websocket.Dial(t.Context(), strings.Replace(c.base, "http", "ws", 1)+path, &websocket.DialOptions{HTTPClient: c.Client, HTTPHeader: header})
	if err == nil {
		conn.SetReadLimit(2 << 20)
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, response, err
}

// talk sends messages, also after the key is revoked, until the service
// breaks off.
func talk(t *testing.T, s *site, c httpClient, path string) {
	a := s.account(t, "large")
	conn, response, err := a.socket(t, c, path)
	must(t, err)
	if limits := response.Header.Get("RateLimit"); !strings.HasPrefix(limits, `"socket";r=999;`) {
		t.Errorf("got RateLimit %q", limits)
	}
	hear(t, conn, websocket.MessageText, "hello")
	for _, message := range []string{"one", "two"} {
		say(t, conn, websocket.MessageText, message)
	}
	say(t, conn, websocket.MessageBinary, strings.Repeat("\x00\xff", 500_000))
	a.ended(t, 1) // it is recorded while it is open
	a.revoke(t)
	say(t, conn, websocket.MessageText, "still here")
	if _, response, err := a.socket(t, c, path); err == nil || response == nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("got %v (%v) with a revoked key", response, err)
	}
	must(t, conn.Write(t.Context(), websocket.MessageText, []byte("die")))
	if _, message, err := conn.Read(t.Context()); err == nil {
		t.Errorf("got %q of a dead service", message)
	}
	a.expect(t, "socket", 1)
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
