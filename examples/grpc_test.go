package examples_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// TestGRPC runs the example of gRPC in front of a real server, with a
// certificate of Caddy's own authority, and calls each kind of method.
func TestGRPC(t *testing.T) {
	next := make(chan bool)
	service := orders(t, next)
	ports := stack.FreePorts(t, 2)
	data := t.TempDir()
	gate := load(t, "grpc.Caddyfile", "https://localhost:"+ports[0], service, func(config map[string]any) {
		config["storage"] = map[string]any{"module": "file_system", "root": data}
		member(config, "apps", "pki", "certificate_authorities", "local")["install_trust"] = false
		member(config, "apps", "http")["http_port"] = json.Number(ports[1])
		if n := replace(config, "read_idle_timeout", float64(10*time.Second), float64(time.Second)); n == 0 {
			t.Error("the example has no read_body_idle of 10 s")
		}
	})
	token := newKey(t, gate, "acc_1", "starter")
	client := dial(t, "localhost:"+ports[0], filepath.Join(data, "pki", "authorities", "local", "root.crt"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	withKey := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)

	get := func(ctx context.Context) (answer []byte, fields metadata.MD, err error) {
		question, trailer := []byte("7"), metadata.MD(nil)
		err = client.Invoke(ctx, "/shop.v1.Orders/Get", &question, &answer, grpc.Header(&fields), grpc.Trailer(&trailer))
		return answer, metadata.Join(fields, trailer), err
	}
	if answer, fields, err := get(withKey); string(answer) != "7" || err != nil || len(fields["served-by"]) != 1 || len(fields["ratelimit"]) != 1 {
		t.Errorf("Get: got %q, %v, %v", answer, fields, err)
	}
	if _, _, err := get(ctx); status.Code(err) != codes.Unauthenticated {
		t.Errorf("Get without a key: got %v", err)
	}
	if err := client.Invoke(withKey, "/grpc.health.v1.Health/Check", new([]byte), new([]byte)); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that is no endpoint: got %v", err)
	}
	watch(withKey, t, client, next)
	chat(withKey, t, client)
	for _, endpoint := range []string{"get", "watch", "chat"} {
		if got := used(t, gate, "acc_1", endpoint); got != 1 {
			t.Errorf("%s has %d calls, want 1", endpoint, got)
		}
	}
	exhaust(t, gate, "acc_1", "get", 1)
	if _, fields, err := get(withKey); status.Code(err) != codes.ResourceExhausted || len(fields["retry-after"]) != 1 {
		t.Errorf("Get without room: got %v, %v", err, fields)
	}
}

// watch reads a stream of the server. The server sends a message only when the
// client has the one before.
func watch(ctx context.Context, t *testing.T, client *grpc.ClientConn, next chan<- bool) {
	t.Helper()
	stream, err := client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/shop.v1.Orders/Watch")
	if err != nil {
		t.Fatal(err)
	}
	question := []byte("7")
	if err := stream.SendMsg(&question); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		next <- true
		var answer []byte
		if err := stream.RecvMsg(&answer); string(answer) != "7" || err != nil {
			t.Fatalf("Watch: got %q, %v", answer, err)
		}
	}
	close(next)
	if err := stream.RecvMsg(new([]byte)); !errors.Is(err, io.EOF) {
		t.Errorf("Watch: got %v at the end, want %v", err, io.EOF)
	}
}

// chat sends and gets messages by turns. It pauses for longer than
// read_body_idle allows.
func chat(ctx context.Context, t *testing.T, client *grpc.ClientConn) {
	t.Helper()
	stream, err := client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/shop.v1.Orders/Chat")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three"} {
		message, answer := []byte(text), []byte(nil)
		if err := stream.SendMsg(&message); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&answer); string(answer) != text || err != nil {
			t.Fatalf("Chat: got %q, %v, want %q", answer, err, text)
		}
		if text == "one" {
			time.Sleep(2 * time.Second)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new([]byte)); !errors.Is(err, io.EOF) {
		t.Errorf("Chat: got %v at the end, want %v", err, io.EOF)
	}
	if got := stream.Trailer()["served-by"]; len(got) != 1 {
		t.Errorf("Chat: got the trailers %v, want served-by", stream.Trailer())
	}
}

// bytesCodec is a codec of gRPC for messages that are bytes already.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (bytesCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

func (bytesCodec) Name() string { return "bytes" }

// orders is a gRPC server without TLS. Get answers with its message, Watch
// sends it each time that next says so, and Chat answers each message.
func orders(t *testing.T, next <-chan bool) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		stream.SetTrailer(metadata.Pairs("served-by", "orders"))
		method, _ := grpc.MethodFromServerStream(stream)
		var message []byte
		for err := stream.RecvMsg(&message); !errors.Is(err, io.EOF); err = stream.RecvMsg(&message) {
			if err != nil {
				return err
			}
			if strings.HasSuffix(method, "/Watch") {
				for range next {
					if err := stream.SendMsg(&message); err != nil {
						return err
					}
				}
			} else if err := stream.SendMsg(&message); err != nil {
				return err
			}
		}
		return nil
	}))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serving gRPC: %v", err)
		}
	})
	return listener.Addr().String()
}

// dial connects to a gRPC server with TLS whose certificate is of an authority.
func dial(t *testing.T, address, authority string) *grpc.ClientConn {
	t.Helper()
	var certificate []byte
	eventually(t, authority, func() (found bool) {
		var err error
		certificate, err = os.ReadFile(authority)
		return err == nil
	})
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(certificate) {
		t.Fatalf("%s is no certificate", authority)
	}
	client, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool})),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(bytesCodec{}), grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}
