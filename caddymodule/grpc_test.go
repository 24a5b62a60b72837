package caddymodule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// plainCodec is a codec of gRPC for messages that are bytes already.
type plainCodec struct{}

func (plainCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (plainCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = data
	return nil
}

func (plainCodec) Name() string { return "plain" }

// echoService is a gRPC server that answers each call with its message.
func echoService(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(plainCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		stream.SetTrailer(metadata.Pairs("served-by", "echo"))
		return stream.SendMsg(&message)
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

// grpcGate are endpoints for gRPC, and one that has only GET.
const grpcGate = `
		guard /echo.Echo/
		login POST /echo.Echo/Login
		endpoint say POST /echo.Echo/Say
		endpoint shout POST /echo.Echo/Shout
		endpoint get GET /echo.Echo/Get
		plan free
		plan small {
			say 2
			shout 100
		}
`

// echo makes a gRPC call through the gate, over a connection of its own,
// and returns what the client got.
func (s *site) echo(t *testing.T, method, token string) (string, metadata.MD, error) {
	t.Helper()
	connection, err := grpc.NewClient("passthrough:///gate.test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.dial(ctx, "", "") }))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	sent, got := []byte("hello"), []byte(nil)
	var header, trailer metadata.MD
	err = connection.Invoke(ctx, method, &sent, &got, grpc.ForceCodec(plainCodec{}), grpc.Header(&header), grpc.Trailer(&trailer))
	return string(got), metadata.Join(header, trailer), err
}

// TestGRPC calls a gRPC service through the gate with a real client: an
// admitted call gets its answer and trailers, a refused one the status of
// gRPC, the gate's sentence and its headers.
func TestGRPC(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "access.log")
	service := echoService(t)
	s := start(t, setup{
		zone: calmZone(), gate: grpcGate, global: "metrics\nservers {\nprotocols h1 h2c\n}",
		behind: "metrics /metrics\nlog {\noutput file " + logs + "\n}\nlog_skip /metrics\nreverse_proxy h2c://" + service,
	})
	before := s.outcomes(t)
	id, token := s.account(t, "small", "say", "shout")
	_, narrow := s.account(t, "small", "shout")
	_, free := s.account(t, "free")
	for range 2 {
		if got, fields, err := s.echo(t, "/echo.Echo/Say", token); got != "hello" || err != nil || len(fields["served-by"]) != 1 || len(fields["ratelimit"]) != 1 {
			t.Fatalf("an admitted call: got %q, %v, %v", got, err, fields)
		}
	}
	refused := func(name, method, token string, want codes.Code, message string, fields ...string) {
		t.Helper()
		_, got, err := s.echo(t, method, token)
		if status.Code(err) != want || !strings.Contains(status.Convert(err).Message(), message) {
			t.Errorf("%s: got %v, want %v %q", name, err, want, message)
		}
		for _, field := range append(fields, "content-type") {
			if len(got[field]) != 1 {
				t.Errorf("%s: got %v, want %s", name, got, field)
			}
		}
	}
	refused("bad path", "/echo.Echo//Say", token, codes.InvalidArgument, "more than one way")
	refused("token in the query", "/echo.Echo/Say?access_token=x", token, codes.InvalidArgument, "exactly one token", "www-authenticate")
	refused("no token", "/echo.Echo/Say", "", codes.Unauthenticated, "Send an API key", "www-authenticate")
	refused("invalid token", "/echo.Echo/Say", "tgk_wrong", codes.Unauthenticated, "not valid", "www-authenticate")
	refused("no access", "/echo.Echo/Say", free, codes.PermissionDenied, "no access")
	refused("no ability", "/echo.Echo/Say", narrow, codes.PermissionDenied, "ability say", "www-authenticate")
	refused("unknown method", "/echo.Echo/Nothing", token, codes.Unimplemented, "nothing here")
	refused("GET only", "/echo.Echo/Get", token, codes.Unimplemented, "not allowed", "allow")
	refused("a login", "/echo.Echo/Login", "", codes.InvalidArgument, "application/json")
	refused("quota used up", "/echo.Echo/Say", token, codes.ResourceExhausted, "2 calls a day to say", "retry-after", "ratelimit", "ratelimit-policy")
	if n := s.used(t, id, "say"); n != 2 {
		t.Errorf("counted %d calls, want 2", n)
	}

	s.behind = strings.Replace(s.behind, service, deadAddress, 1)
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	refused("no upstream", "/echo.Echo/Shout", token, codes.Unavailable, "did not answer", "ratelimit")
	proxy, _, _ := strings.Cut(s.behind, "h2c://")
	s.behind = proxy + "h2c://" + newSilent(t) + " {\ntransport http {\nresponse_header_timeout 100ms\nversions h2c\n}\n}"
	if err := s.reload(); err != nil {
		t.Fatal(err)
	}
	refused("upstream too slow", "/echo.Echo/Shout", token, codes.Unavailable, "in time", "ratelimit")
	if err := app(t).Cleanup(); err != nil {
		t.Fatal(err)
	}
	refused("no store", "/echo.Echo/Shout", token, codes.Unavailable, "cannot check", "retry-after")
	checkGRPCLog(t, logs)
	after := s.outcomes(t)
	for outcome, want := range map[string]int{
		`endpoint="say",mode="enforce",outcome="admitted"`: 2, `endpoint="say",mode="enforce",outcome="malformed"`: 1, `endpoint="say",mode="enforce",outcome="unauthenticated"`: 2,
		`endpoint="say",mode="enforce",outcome="not_entitled"`: 2, `endpoint="say",mode="enforce",outcome="exhausted"`: 1, `endpoint="",mode="enforce",outcome="malformed"`: 2,
		`endpoint="",mode="enforce",outcome="not_found"`: 2, `endpoint="shout",mode="enforce",outcome="failed"`: 2, `endpoint="shout",mode="enforce",outcome="unavailable"`: 1,
	} {
		if got := after[outcome] - before[outcome]; got != want {
			t.Errorf("%s: counted %d, want %d", outcome, got, want)
		}
	}
}

var outcome = regexp.MustCompile(`(?m)^caddy_tollgate_requests_total\{(.*)\} (\d+)$`)

// outcomes reads what the gate counted, by the labels.
func (s *site) outcomes(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, match := range outcome.FindAllStringSubmatch(s.ask(t, "GET", "/metrics", "").body, -1) {
		var err error
		if counts[match[1]], err = strconv.Atoi(match[2]); err != nil {
			t.Fatal(err)
		}
	}
	return counts
}

// newSilent is a server that takes connections and never answers.
func newSilent(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String() // the kernel accepts for it
}

// checkGRPCLog wants the outcome of each call in the access log, although
// the status of HTTP is 200.
func checkGRPCLog(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var entry struct {
			Status  int
			Headers map[string][]string `json:"resp_headers"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		seen[fmt.Sprint(entry.Status, entry.Headers["Grpc-Status"])]++
	}
	for entry, want := range map[string]int{"200 [3]": 3, "200 [16]": 2, "200 [7]": 2, "200 [12]": 2, "200 [8]": 1, "200 [14]": 3} {
		if seen[entry] != want {
			t.Errorf("the access log has %d of %s, want %d: %v", seen[entry], entry, want, seen)
		}
	}
}
