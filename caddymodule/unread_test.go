package caddymodule_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/caddytest"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// noBodyTimeouts lets Caddy wait for a body longer than any test does: an
// answer that waits for the body never comes.
const noBodyTimeouts = `servers {
		timeouts {
			read_body_idle 1h
		}
	}`

// awaitRefusal reads one answer from a connection whose request has a body
// that does not come, and then the end of the connection.
func awaitRefusal(t *testing.T, conn net.Conn) (*http.Response, string) {
	t.Helper()
	defer conn.Close()
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		t.Errorf("reading the answer: %v", err)
		return nil, ""
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil {
		t.Errorf("reading the body: %v", err)
	}
	if !response.Close {
		t.Errorf("got headers %v, want Connection: close", response.Header)
	}
	// The client does not send the body after that, and says so. The server
	// may have closed the connection already; ignore the error.
	_ = conn.(interface{ CloseWrite() error }).CloseWrite()
	if rest, err := io.ReadAll(reader); err != nil || len(rest) > 0 {
		t.Errorf("behind the answer: got %q, %v; want the end of the connection", rest, err)
	}
	return response, string(body)
}

// bodies announce a body of which not all comes.
var bodies = map[string]string{
	"waits for 100 Continue": "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n",
	"sends a part":           "Content-Length: 100\r\n\r\n{\"conversions\":",
	"sends some chunks":      "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
	"announces 10 MB":        "Content-Length: 10000000\r\n\r\n",
}

// TestRefusalWaitsForNoBody: each refusal over HTTP/1 is answered at once,
// whether or not the client ever sends the body that it announced, and is
// the last answer of its connection.
func TestRefusalWaitsForNoBody(t *testing.T) {
	s := start(t, setup{zone: calmZone(), global: noBodyTimeouts, behind: "reverse_proxy " + deadAddress})
	_, good := s.account(t, "starter", "convert")
	_, free := s.account(t, "free")
	spent, exhausted := s.account(t, "small", "convert")
	today := compiled(t).Calendar.At(time.Now()).Day
	for range 5 {
		if _, err := s.store(t).Take(t.Context(), store.Call{Account: spent, Endpoint: "convert", Day: today}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	const batch = "POST /api/convert/batch"
	bearer := func(token string) string { return "Authorization: Bearer " + token + "\r\n" }
	for name, c := range map[string]struct {
		request, header string
		status          int
		says            string
	}{
		"bad path":           {"POST /a//b", "", 400, "bad_path"},
		"token in the query": {batch + "?access_token=x", "", 400, "invalid_request"},
		"no token":           {batch, "", 401, "unauthenticated"},
		"no access":          {batch, bearer(free), 403, "plan_required"},
		"unknown path":       {"POST /api/nothing", "", 404, "not_found"},
		"other method":       {"PUT /api/convert/batch", "", 405, "method_not_allowed"},
		"quota used up":      {"GET " + convert, bearer(exhausted), 429, "quota_exceeded"},
		"login of no type":   {"POST /api/login", "Content-Type: text/plain\r\n", 415, "unsupported_media_type"},
		"upstream away":      {"POST /settings", "", 502, ""},
		"upstream of a call": {batch, bearer(good), 502, "upstream_unreachable"},
		"page":               {"POST /login", "Accept: text/html\r\n", 415, "Back to the form"},
		"gRPC":               {batch, "Content-Type: application/grpc\r\n", 200, ""},
	} {
		for kind, body := range bodies {
			t.Run(name+" "+kind, func(t *testing.T) {
				got, text := awaitRefusal(t, s.open(t, c.request+" HTTP/1.1\r\nHost: x\r\n"+c.header+body))
				if got != nil && (got.StatusCode != c.status || !strings.Contains(text, c.says)) {
					t.Errorf("got %d %s, want %d %s", got.StatusCode, text, c.status, c.says)
				}
			})
		}
	}
	t.Run("a part of a long upload", func(t *testing.T) {
		// The server closes a connection with unread bytes in it. The client
		// still reads the answer and then its end, and no reset.
		got, text := awaitRefusal(t, s.open(t, batch+" HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n"+strings.Repeat("x", 300_000)))
		if got != nil && (got.StatusCode != 401 || !strings.Contains(text, "unauthenticated")) {
			t.Errorf("got %d %s", got.StatusCode, text)
		}
	})
	t.Run("login too long", func(t *testing.T) {
		got, text := awaitRefusal(t, s.open(t, "POST /api/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000\r\n\r\n"+strings.Repeat(" ", 5000)))
		if got != nil && (got.StatusCode != 413 || !strings.Contains(text, "body_too_large")) {
			t.Errorf("got %d %s", got.StatusCode, text)
		}
	})
	t.Run("errors pass", func(t *testing.T) {
		s.more, s.behind = "errors pass", s.behind+"\nhandle_errors {\nrespond \"mine {err.status_code}\"\n}"
		if err := s.reload(); err != nil {
			t.Fatal(err)
		}
		got, text := awaitRefusal(t, s.open(t, batch+" HTTP/1.1\r\nHost: x\r\n"+bodies["sends a part"]))
		if got != nil && (got.StatusCode != 401 || text != "mine 401") {
			t.Errorf("got %d %s", got.StatusCode, text)
		}
	})
}

// TestControlRefusalWaitsForNoBody is the same on the control listener.
func TestControlRefusalWaitsForNoBody(t *testing.T) {
	c := newControlledCaddy(t)
	if err := c.load(t, c.gateApp("starter")); err != nil {
		t.Fatal(err)
	}
	const authorized = "Authorization: Bearer " + controlSecret + "\r\n"
	for name, r := range map[string]struct {
		request, header string
		status          int
	}{
		"no secret":      {"POST /tollgate/accounts/acc_1/keys", "", 401},
		"unknown path":   {"POST /tollgate/nothing", authorized, 404},
		"other method":   {"POST /tollgate/plans", authorized, 405},
		"query":          {"PUT /tollgate/accounts/acc_1?a=%zz", authorized, 400},
		"media type":     {"PUT /tollgate/accounts/acc_1", authorized + "Content-Type: text/plain\r\n", 415},
		"Accept":         {"PUT /tollgate/accounts/acc_1", authorized + "Accept: text/html\r\n", 406},
		"GET with body":  {"GET /tollgate/accounts/nobody", authorized, 404},
		"GET that is OK": {"GET /tollgate/plans", authorized, 200},
		"public keys":    {"GET /tollgate/jwks.json", "", 200},
		"document":       {"GET /tollgate/openapi.json", authorized, 200},
	} {
		for kind, body := range bodies {
			t.Run(name+" "+kind, func(t *testing.T) {
				conn, err := new(net.Dialer).DialContext(t.Context(), "unix", filepath.Join(c.dir, "control.sock"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.WriteString(conn, r.request+" HTTP/1.1\r\nHost: x\r\n"+r.header+body); err != nil {
					t.Fatal(err)
				}
				got, text := awaitRefusal(t, conn)
				if got != nil && got.StatusCode != r.status {
					t.Errorf("got %d %s, want %d", got.StatusCode, text, r.status)
				}
			})
		}
	}
}

// TestRefusalKeepsConnection: a refusal ends no connection on which there
// is nothing left to read.
func TestRefusalKeepsConnection(t *testing.T) {
	s := start(t, setup{zone: calmZone(), gate: strict, upstream: func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/login") {
			password(w, r)
			return
		}
		panic(http.ErrAbortHandler) // after it has read the body
	}})
	_, bearer := s.account(t, "starter")
	conn := s.open(t, "")
	reader := bufio.NewReader(conn)
	const body = "email=a%40example.com&password=x"
	form := fmt.Sprintf("POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for _, c := range []struct {
		request string
		status  int
	}{
		{"GET " + convert + " HTTP/1.1\r\nHost: x\r\n\r\n", 401},
		{"GET /api/nothing HTTP/1.1\r\nHost: x\r\nAccept: text/html\r\n\r\n", 404},
		{"POST /api/nothing HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", 404},
		{"POST /page HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde", 502},
		{"POST /page HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n", 502},
		{"POST /api/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + bearer + "\r\nContent-Length: 5\r\n\r\nabcde", 502},
		{form, 401},
		{form, 429},
		{form, 429},
	} {
		if _, err := io.WriteString(conn, c.request); err != nil {
			t.Fatalf("writing: %v", err)
		}
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.request, err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.status || response.Close {
			t.Errorf("%q: got %d %v, want %d and a connection that stays", c.request, response.StatusCode, response.Header, c.status)
		}
	}
}

// strict throttles from the second attempt of a client on.
const strict = "guard /api/\nlogin POST /login {\nper_client 1 1h\n}\nendpoint convert GET /api/convert/{from}/{amount}/{to}\nendpoint batch POST /api/batch {\nability convert\n}\nplan starter {\nconvert 10\nbatch 10\n}"

// TestRefusalOverHTTP2 answers at once too, and without the header field
// that HTTP/2 forbids.
func TestRefusalOverHTTP2(t *testing.T) {
	start(t, setup{zone: calmZone(), global: "servers {\nprotocols h1 h2c\ntimeouts {\nread_body_idle 1h\n}\n}"})
	body, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, "POST", "http://gate.test/api/convert/batch", body)
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: caddytest.Dial, Protocols: &protocols}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.ProtoMajor != 2 || response.StatusCode != 401 || response.Header["Connection"] != nil {
		t.Errorf("got %s %d %v %s, %v", response.Proto, response.StatusCode, response.Header, text, err)
	}
}
