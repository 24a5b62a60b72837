package protocol_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// grpcs are calls of gRPC. UnaryCall goes to a service without TLS, and
// FullDuplexCall to one with TLS. A test kills the services of EmptyCall
// before the answer and of StreamingOutputCall in the middle.
func grpcs(t *testing.T) protocol {
	const path = "/grpc.testing.TestService/"
	open, secured := newGRPC(t, nil), certify(t)
	before, middle := newGRPC(t, nil), newGRPC(t, nil)
	return protocol{
		endpoints: []endpoint{
			{name: "unary", method: "POST", path: path + "UnaryCall", behind: "reverse_proxy h2c://" + open.address},
			{name: "duplex", method: "POST", path: path + "FullDuplexCall", behind: secured},
			{name: "empty", method: "POST", path: path + "EmptyCall", behind: "reverse_proxy h2c://" + before.address},
			{name: "output", method: "POST", path: path + "StreamingOutputCall", behind: "reverse_proxy h2c://" + middle.address},
		},
		test: func(t *testing.T, s *site) {
			for name, dial := range map[string]func(*testing.T) testgrpc.TestServiceClient{
				"h2c": func(t *testing.T) testgrpc.TestServiceClient {
					return dialGRPC(t, strings.TrimPrefix(s.Address, "http://"), insecure.NewCredentials())
				},
				"TLS": func(t *testing.T) testgrpc.TestServiceClient {
					return dialGRPC(t, strings.TrimPrefix(s.secure, "https://"), credentials.NewTLS(&tls.Config{RootCAs: s.roots}))
				},
			} {
				t.Run(name, func(t *testing.T) { callDuplex(t, s, dial(t)) })
			}
			client := dialGRPC(t, strings.TrimPrefix(s.Address, "http://"), insecure.NewCredentials())
			t.Run("the service dies before the answer", func(t *testing.T) {
				a := s.account(t, "large")
				go func() {
					<-before.arrived
					before.Stop()
				}()
				_, err := client.EmptyCall(a.metadata(t), &testgrpc.Empty{})
				wantStatus(t, err, codes.Unavailable, "did not answer")
				a.expect(t, "empty", 0)
			})
			t.Run("the service dies in the middle", func(t *testing.T) {
				a := s.account(t, "large")
				stream, err := client.StreamingOutputCall(a.metadata(t), &testgrpc.StreamingOutputCallRequest{})
				must(t, err)
				if _, err := stream.Recv(); err != nil {
					t.Fatal(err)
				}
				<-middle.arrived
				middle.Stop()
				if message, err := stream.Recv(); err == nil || errors.Is(err, io.EOF) {
					t.Errorf("got %v, %v, want an error", message, err)
				}
				a.ended(t, 1)
				a.expect(t, "output", 1)
			})
		},
	}
}

// grpcService is a server of gRPC.
type grpcService struct {
	testgrpc.UnimplementedTestServiceServer
	*grpc.Server
	address string
	arrived chan struct{} // a call has come, and waits for the end
}

// newGRPC starts a server of gRPC, with TLS if there are credentials.
func newGRPC(t *testing.T, secured credentials.TransportCredentials) *grpcService {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &grpcService{Server: grpc.NewServer(grpc.Creds(secured)), address: listener.Addr().String(), arrived: make(chan struct{})}
	testgrpc.RegisterTestServiceServer(s, s)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serving gRPC: %v", err)
		}
	})
	return s
}

// certify starts a server of gRPC with TLS, and returns the proxy to it. Its
// certificate is that of tests of net/http.
func certify(t *testing.T) (behind string) {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "root.pem")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	s := newGRPC(t, credentials.NewServerTLSFromCert(&server.TLS.Certificates[0]))
	return fmt.Sprintf("reverse_proxy https://%s {\ntransport http {\ntls_trust_pool file %s\n}\n}", s.address, file)
}

// UnaryCall echoes the payload, with a trailer.
func (s *grpcService) UnaryCall(ctx context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	fields, _ := metadata.FromIncomingContext(ctx)
	if len(fields["tollgate-account"]) != 1 || len(fields["authorization"]) != 0 {
		return nil, status.Errorf(codes.Internal, "got %v", fields)
	}
	return &testgrpc.SimpleResponse{Payload: in.Payload}, grpc.SetTrailer(ctx, trailer)
}

// FullDuplexCall echoes each payload when it comes, with a trailer.
func (s *grpcService) FullDuplexCall(stream testgrpc.TestService_FullDuplexCallServer) error {
	stream.SetTrailer(trailer)
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.DataLoss, "a status of the service")
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testgrpc.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

// EmptyCall does not answer.
func (s *grpcService) EmptyCall(ctx context.Context, _ *testgrpc.Empty) (*testgrpc.Empty, error) {
	s.arrived <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// StreamingOutputCall sends a message, and does not end.
func (s *grpcService) StreamingOutputCall(_ *testgrpc.StreamingOutputCallRequest, stream testgrpc.TestService_StreamingOutputCallServer) error {
	if err := stream.Send(&testgrpc.StreamingOutputCallResponse{}); err != nil {
		return err
	}
	s.arrived <- struct{}{}
	<-stream.Context().Done()
	return stream.Context().Err()
}

var trailer = metadata.Pairs("served-by", "test")

func dialGRPC(t *testing.T, address string, secured credentials.TransportCredentials) testgrpc.TestServiceClient {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(secured))
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	return testgrpc.NewTestServiceClient(connection)
}

// metadata returns a context of calls with the key.
func (a *account) metadata(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+a.token)
}

func payload(text string) *testgrpc.Payload { return &testgrpc.Payload{Body: []byte(text)} }

// callDuplex sends a message when it has the answer to the one before, also
// after the key is revoked. The service ends with a status of its own.
func callDuplex(t *testing.T, s *site, client testgrpc.TestServiceClient) {
	a := s.account(t, "large")
	ctx := a.metadata(t)
	stream, err := client.FullDuplexCall(ctx)
	must(t, err)
	for i := range 10 {
		text := fmt.Sprint("message ", i)
		must(t, stream.Send(&testgrpc.StreamingOutputCallRequest{Payload: payload(text)}))
		out, err := stream.Recv()
		if err != nil || string(out.GetPayload().GetBody()) != text {
			t.Fatalf("got %v, %v, want %s", out, err, text)
		}
		if i == 5 {
			a.revoke(t)
		}
	}
	must(t, stream.CloseSend())
	_, err = stream.Recv()
	wantStatus(t, err, codes.DataLoss, "a status of the service")
	if len(stream.Trailer()["served-by"]) != 1 {
		t.Errorf("got the trailer %v", stream.Trailer())
	}
	a.ended(t, 1)
	a.expect(t, "duplex", 1)
	_, err = client.UnaryCall(ctx, &testgrpc.SimpleRequest{})
	wantStatus(t, err, codes.Unauthenticated, "not valid")
}

func wantStatus(t *testing.T, err error, want codes.Code, message string) {
	t.Helper()
	if status.Code(err) != want || !strings.Contains(status.Convert(err).Message(), message) {
		t.Errorf("got %v, want %v %q", err, want, message)
	}
}
