package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/coder/websocket"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
)

// live is a service with a WebSocket that sends back what it gets, and with
// events. It sends an event only when the client has the one before.
type live struct {
	address   string
	next      chan bool     // sends another event, until it is closed
	protocols chan []string // what the WebSockets asked for
}

func newLive(t *testing.T) *live {
	l := &live{next: make(chan bool), protocols: make(chan []string, 10)}
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/chat", func(w http.ResponseWriter, r *http.Request) {
		l.protocols <- r.Header.Values("Sec-WebSocket-Protocol")
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"chat"}})
		if err != nil {
			t.Errorf("accepting a WebSocket: %v", err)
			return
		}
		defer conn.CloseNow()
		for ctx := context.WithoutCancel(r.Context()); ; { // the connection is hijacked
			kind, message, err := conn.Read(ctx)
			if err != nil || conn.Write(ctx, kind, message) != nil {
				return // the client is gone
			}
		}
	})
	mux.HandleFunc("/v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range l.next {
			if _, err := w.Write([]byte("data: event\n\n")); err != nil {
				t.Errorf("writing an event: %v", err)
			}
			w.(http.Flusher).Flush()
		}
	})
	service := httptest.NewServer(mux)
	t.Cleanup(service.Close)
	l.address = service.Listener.Addr().String()
	return l
}

// TestEvents runs the example of WebSockets and events: each event arrives
// before the service sends another one.
func TestEvents(t *testing.T) {
	service := newLive(t)
	site, gate := run(t, "websocket-sse.Caddyfile", service.address)
	token := newKey(t, gate, "acc_1", "starter")
	request, err := http.NewRequestWithContext(t.Context(), "GET", site+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	next := func() { service.next <- true }
	go next()
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", response, err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for i := range 3 {
		if i > 0 {
			next()
		}
		if !lines.Scan() || lines.Text() != "data: event" || !lines.Scan() || lines.Text() != "" {
			t.Fatalf("got %q, %v, want an event", lines.Text(), lines.Err())
		}
	}

	// A revocation does not close the stream.
	revokeAll(t, gate, "acc_1")
	wantStatus(t, 401, "GET", site+"/v1/events", "", "Authorization", "Bearer "+token)
	next()
	if !lines.Scan() || lines.Text() != "data: event" {
		t.Errorf("got %q, %v after the revocation, want an event", lines.Text(), lines.Err())
	}
	close(service.next)
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
	if got := used(t, gate, "acc_1", "events"); got != 1 {
		t.Errorf("the stream is %d calls, want 1", got)
	}
}

// TestWebSocket runs the example of WebSockets and events, with a key in the
// header or, as a page sends it, in the subprotocol.
func TestWebSocket(t *testing.T) {
	service := newLive(t)
	site := address(t)
	var config map[string]any
	gate := load(t, "websocket-sse.Caddyfile", site, service.address, func(loaded map[string]any) { config = loaded })
	token := newKey(t, gate, "acc_1", "starter")
	header := &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}, Subprotocols: []string{"chat"}}
	page := &websocket.DialOptions{Subprotocols: []string{"chat", "tollgate.bearer." + token}}

	if _, response, err := websocket.Dial(t.Context(), site+"/v1/chat", nil); err == nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: got %v, %v", response, err)
	}
	conn := open(t, site, header)
	open(t, site, page)
	for range 2 {
		if got := <-service.protocols; !slices.Equal(got, []string{"chat"}) {
			t.Errorf("the service got the subprotocols %q, want chat", got)
		}
	}
	if got := used(t, gate, "acc_1", "chat"); got != 2 {
		t.Errorf("two connections are %d calls, want 2", got)
	}
	exhaust(t, gate, "acc_1", "chat", 2)
	if _, response, err := websocket.Dial(t.Context(), site+"/v1/chat", header); err == nil || response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("without room: got %v, %v", response, err)
	}
	revokeAll(t, gate, "acc_1")
	if _, response, err := websocket.Dial(t.Context(), site+"/v1/chat", page); err == nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("with a revoked key: got %v, %v", response, err)
	}
	say(t, conn, "still open")

	// stream_close_delay keeps it open after a reload.
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(text, true); err != nil {
		t.Fatal(err)
	}
	say(t, conn, "open after a reload")
}

// TestStreamTimeout runs the example of WebSockets and events with a shorter
// time, and waits until a WebSocket is closed.
func TestStreamTimeout(t *testing.T) {
	service := newLive(t)
	site := address(t)
	gate := load(t, "websocket-sse.Caddyfile", site, service.address, func(config map[string]any) {
		if n := replace(config, "stream_timeout", float64(time.Hour), float64(time.Second)); n != 1 {
			t.Errorf("the example has %d stream_timeout of an hour, want 1", n)
		}
	})
	conn := open(t, site, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + newKey(t, gate, "acc_1", "starter")}}, Subprotocols: []string{"chat"}})
	if kind, message, err := conn.Read(t.Context()); err == nil {
		t.Errorf("got %v %q, want a closed connection", kind, message)
	}
}

// open opens a WebSocket of the example, and sends a message.
func open(t *testing.T, site string, options *websocket.DialOptions) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), site+"/v1/chat", options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseNow() })
	if got := conn.Subprotocol(); got != "chat" {
		t.Errorf("got the subprotocol %q, want chat", got)
	}
	say(t, conn, "hello")
	return conn
}

// say sends a message and waits for its echo.
func say(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := conn.Read(t.Context()); string(got) != message || err != nil {
		t.Fatalf("got %q, %v, want %q", got, err, message)
	}
}

// revokeAll revokes the keys of an account.
func revokeAll(t *testing.T, gate *client.Client, account string) {
	t.Helper()
	keys, err := gate.Keys(t.Context(), account, client.KeyFilter{})
	if err != nil || len(keys) == 0 {
		t.Fatalf("the account has the keys %v, %v", keys, err)
	}
	for _, key := range keys {
		if err := gate.RevokeKey(t.Context(), account, key.ID); err != nil {
			t.Fatal(err)
		}
	}
}
