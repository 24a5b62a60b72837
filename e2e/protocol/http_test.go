package protocol_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// versions are all versions of HTTP.
func versions(t *testing.T) protocol {
	return protocol{
		endpoints: []endpoint{{name: "echo", method: "POST", path: "/api/echo", behind: serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			if _, err := io.Copy(w, r.Body); err != nil {
				panic(http.ErrAbortHandler)
			}
		})}},
		test: func(t *testing.T, s *site) {
			s.each(t, func(t *testing.T, c httpClient) {
				a := s.account(t, "large")
				response, text := a.call(t, c, "POST", "/api/echo", strings.NewReader("hello"))
				if response.StatusCode != http.StatusOK || text != "hello" || response.ProtoMajor != c.major {
					t.Errorf("got %s %d %q", response.Proto, response.StatusCode, text)
				}
				h := response.Header
				if !strings.HasPrefix(h.Get("RateLimit"), `"echo";r=999;`) || h.Get("RateLimit-Policy") != `"echo";q=1000;w=86400` {
					t.Errorf("got %v", h)
				}
				a.token = ""
				response, text = a.call(t, c, "POST", "/api/echo", strings.NewReader("hello"))
				if response.StatusCode != http.StatusUnauthorized || !strings.Contains(text, `"code":"unauthenticated"`) {
					t.Errorf("got %d %q", response.StatusCode, text)
				}
				a.expect(t, "echo", 1)
			})
		},
	}
}

// ranges are parts of a file, of a service and of Caddy itself.
func ranges(t *testing.T) protocol {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "digits"), []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := http.FileServer(http.Dir(dir))
	return protocol{
		endpoints: []endpoint{
			{name: "files", method: "GET", path: "/api/files/{name}", behind: serve(t, http.StripPrefix("/api/files", files).ServeHTTP)},
			{name: "own_files", method: "GET", path: "/api/own/{name}", behind: "uri strip_prefix /api/own\nroot " + dir + "\nfile_server"},
		},
		test: func(t *testing.T, s *site) {
			for name, path := range map[string]string{"files": "/api/files/digits", "own_files": "/api/own/digits"} {
				t.Run(name, func(t *testing.T) { s.each(t, func(t *testing.T, c httpClient) { readRanges(t, s, c, name, path) }) })
			}
		},
	}
}

func readRanges(t *testing.T, s *site, c httpClient, name, path string) {
	a := s.account(t, "large")
	whole, _ := a.call(t, c, "GET", path, nil)
	modified := whole.Header.Get("Last-Modified")
	for i, test := range []struct {
		header             []string
		status             int
		text, contentRange string
	}{
		{[]string{"Range", "bytes=2-4"}, 206, "234", "bytes 2-4/10"},
		{[]string{"Range", "bytes=-3"}, 206, "789", "bytes 7-9/10"},
		{[]string{"Range", "bytes=20-"}, 416, "", "bytes */10"},
		{[]string{"Range", "bytes=2-4", "If-Range", modified}, 206, "234", "bytes 2-4/10"},
		{[]string{"Range", "bytes=2-4", "If-Range", "Mon, 02 Jan 2006 15:04:05 GMT"}, 200, "0123456789", ""},
		{[]string{"If-Modified-Since", modified}, 304, "", ""},
	} {
		response, text := a.call(t, c, "GET", path, nil, test.header...)
		if response.StatusCode != test.status || response.Header.Get("Content-Range") != test.contentRange || test.status < 300 && text != test.text {
			t.Errorf("%v: got %d %q, %v", test.header, response.StatusCode, text, response.Header)
		}
		a.expect(t, name, int64(i)+2)
	}
}

// continues are requests whose client waits for 100 Continue.
func continues(t *testing.T) protocol {
	return protocol{
		endpoints: []endpoint{{name: "expect", method: "POST", path: "/api/expect", behind: serve(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(w, r.Body); err != nil {
				panic(http.ErrAbortHandler)
			}
		})}},
		test: func(t *testing.T, s *site) {
			a := s.account(t, "large")
			conn, answers := sendExpect(t, s, "Authorization: Bearer "+a.token+"\r\n")
			response := readAnswer(t, answers)
			if response.StatusCode != http.StatusContinue {
				t.Fatalf("got %d, want 100", response.StatusCode)
			}
			fmt.Fprint(conn, "hello")
			for response.StatusCode == http.StatusContinue { // Caddy also passes that of the service on
				response = readAnswer(t, answers)
			}
			if text, err := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || string(text) != "hello" || err != nil {
				t.Errorf("got %d %q, %v", response.StatusCode, text, err)
			}
			a.expect(t, "expect", 1)

			// A refused client does not send the body.
			_, answers = sendExpect(t, s, "")
			if response := readAnswer(t, answers); response.StatusCode != http.StatusUnauthorized || !response.Close {
				t.Errorf("got %d %v, want 401 and the end of the connection", response.StatusCode, response.Header)
			}
		},
	}
}

// sendExpect sends the headers of a request.
func sendExpect(t *testing.T, s *site, authorization string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /api/expect HTTP/1.1\r\nHost: %s\r\n%sExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", conn.RemoteAddr(), authorization)
	return conn, bufio.NewReader(conn)
}

// readAnswer reads the next answer, also one that is not final.
func readAnswer(t *testing.T, r *bufio.Reader) *http.Response {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// hints are Early Hints. The service answers when the client has them.
func hints(t *testing.T) protocol {
	const link = "</style.css>; rel=preload; as=style"
	seen := make(chan struct{})
	return protocol{
		endpoints: []endpoint{{name: "hints", method: "GET", path: "/api/hints", behind: serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", link)
			w.WriteHeader(http.StatusEarlyHints)
			select {
			case <-seen:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, "page")
		})}},
		test: func(t *testing.T, s *site) {
			s.each(t, func(t *testing.T, c httpClient) {
				a := s.account(t, "large")
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
					if status != http.StatusEarlyHints || h.Get("Link") != link || h.Get("RateLimit") != "" {
						t.Errorf("got %d %v", status, h)
					}
					seen <- struct{}{}
					return nil
				}})
				response := a.open(ctx, t, c, "GET", "/api/hints", nil)
				text, err := io.ReadAll(response.Body)
				if response.StatusCode != http.StatusOK || string(text) != "page" || err != nil || response.Header.Get("Link") != link {
					t.Errorf("got %d %q, %v, %v", response.StatusCode, text, response.Header, err)
				}
				a.expect(t, "hints", 1)
			})
		},
	}
}
