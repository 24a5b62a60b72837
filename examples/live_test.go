package examples_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestWebSocket runs the example of WebSockets, with a key in the header or,
// as a page sends it, in the subprotocol.
func TestWebSocket(t *testing.T) {
	protocols := make(chan []string, 10) // what the WebSockets asked for
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Header.Values("Sec-WebSocket-Protocol")
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
	}))
	t.Cleanup(service.Close)
	site, gate := run(t, "websocket-sse.Caddyfile", service.URL)
	token := newKey(t, gate, "acc_1", "starter")
	header := &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}, Subprotocols: []string{"chat"}}
	page := &websocket.DialOptions{Subprotocols: []string{"chat", "tollgate.bearer." + token}}
	refused := func(options *websocket.DialOptions, want int) {
		t.Helper()
		if _, response, err := websocket.Dial(t.Context(), site+"/v1/chat", options); err == nil || response == nil || response.StatusCode != want {
			t.Errorf("got %v, %v, want %d", response, err, want)
		}
	}
	refused(nil, 401)
	var first *websocket.Conn
	for _, options := range []*websocket.DialOptions{header, page} {
		conn, _, err := websocket.Dial(t.Context(), site+"/v1/chat", options)
		must(t, err)
		t.Cleanup(func() { conn.CloseNow() })
		if got := <-protocols; conn.Subprotocol() != "chat" || !slices.Equal(got, []string{"chat"}) {
			t.Errorf("the service got the subprotocols %q, the client %q, want chat", got, conn.Subprotocol())
		}
		first = conn
	}
	if got := used(t, gate, "acc_1", "chat"); got != 2 {
		t.Errorf("two connections are %d calls, want 2", got)
	}
	exhaust(t, gate, "acc_1", "chat", 2)
	refused(header, 429)
	keys, err := gate.Keys(t.Context(), "acc_1", client.KeyFilter{})
	if err != nil || len(keys) != 1 {
		t.Fatalf("the account has the keys %v, %v", keys, err)
	}
	must(t, gate.RevokeKey(t.Context(), "acc_1", keys[0].ID))
	refused(page, 401)
	must(t, first.Write(t.Context(), websocket.MessageText, []byte("still open")))
	if _, got, err := first.Read(t.Context()); string(got) != "still open" || err != nil {
		t.Errorf("after the revocation: got %q, %v", got, err)
	}
}

// echo is a gRPC service whose methods send back the first message.
type echo struct{}

func (echo) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (echo) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }
func (echo) Name() string                    { return "bytes" }

// TestGRPC runs the example with gRPC in front of a real server, with a
// certificate of Caddy's own authority.
func TestGRPC(t *testing.T) {
	server := grpc.NewServer(grpc.ForceServerCodec(echo{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		return stream.SendMsg(&message)
	}))
	service := httptest.NewUnstartedServer(nil) // for its listener
	go server.Serve(service.Listener)           // Stop ends it
	t.Cleanup(server.Stop)
	t.Setenv("GRPC_UPSTREAM", service.Listener.Addr().String())
	ports, data := stack.FreePorts(t, 2), t.TempDir()
	_, gate := load(t, "websocket-sse.Caddyfile", "https://localhost:"+ports[0], "127.0.0.1:1", func(config map[string]any) {
		config["storage"] = map[string]any{"module": "file_system", "root": data}
		member(config, "apps", "pki", "certificate_authorities", "local")["install_trust"] = false
		member(config, "apps", "http")["http_port"] = json.Number(ports[1])
	})
	authority, pool := filepath.Join(data, "pki", "authorities", "local", "root.crt"), x509.NewCertPool()
	eventually(t, authority, func() bool {
		certificate, err := os.ReadFile(authority)
		return err == nil && pool.AppendCertsFromPEM(certificate)
	})
	connection, err := grpc.NewClient("localhost:"+ports[0], grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool})),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(echo{}), grpc.WaitForReady(true)))
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+newKey(t, gate, "acc_1", "starter"))
	question := []byte("7")
	call := func(ctx context.Context, method string) (answer string, fields metadata.MD, err error) {
		var text []byte
		var header, trailer metadata.MD
		err = connection.Invoke(ctx, method, &question, &text, grpc.Header(&header), grpc.Trailer(&trailer))
		return string(text), metadata.Join(header, trailer), err
	}
	for _, method := range []string{"Get", "Watch"} {
		if answer, fields, err := call(key, "/shop.v1.Orders/"+method); answer != "7" || err != nil || len(fields["ratelimit"]) != 1 {
			t.Errorf("%s: got %q, %v, %v", method, answer, fields, err)
		}
	}
	if _, _, err := call(ctx, "/shop.v1.Orders/Get"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a key: got %v", err)
	}
	if _, _, err := call(key, "/shop.v1.Orders/Delete"); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that is no endpoint: got %v", err)
	}
	exhaust(t, gate, "acc_1", "get", 1)
	if _, fields, err := call(key, "/shop.v1.Orders/Get"); status.Code(err) != codes.ResourceExhausted || len(fields["retry-after"]) != 1 {
		t.Errorf("without room: got %v, %v", err, fields)
	}
}
