package protocol_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
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

// names are names with special characters in the path. The service gets the
// bytes of the client, also behind a directive that strips a prefix.
func names(t *testing.T) protocol {
	const name = "/@types%2fnode;v=1/a%5Cb%3F%23/50%25/test%2546.txt/%C3%A9'(1)!*[2]"
	echo := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RequestURI) })
	return protocol{
		endpoints: []endpoint{
			{name: "names", method: "GET", path: "/api/names/{path...}", behind: echo},
			{name: "stripped", method: "GET", path: "/api/stripped/{path...}", behind: "uri strip_prefix /api/stripped\n" + echo},
			{path: "/open/{path...}", behind: echo},
		},
		test: func(t *testing.T, s *site) {
			s.each(t, func(t *testing.T, c httpClient) {
				a := s.account(t, "large")
				for path, want := range map[string]string{"/api/names" + name: "/api/names" + name, "/api/stripped" + name: name, "/open" + name: "/open" + name} {
					response, text := a.call(t, c, "GET", path+"?q=a%2Fb", nil)
					if response.StatusCode != http.StatusOK || response.ProtoMajor != c.major || text != want+"?q=a%2Fb" {
						t.Errorf("%s: got %s %d, the service got %s", path, response.Proto, response.StatusCode, text)
					}
				}
				response, text := a.call(t, c, "GET", "/api/names/a%2F..%2Fb", nil)
				if response.StatusCode != http.StatusBadRequest || !strings.Contains(text, `"code":"bad_path"`) {
					t.Errorf("two readings: got %d %s", response.StatusCode, text)
				}
				a.ended(t, 2)
				usage, err := a.control.Usage(t.Context(), a.id, 0)
				must(t, err)
				for _, call := range usage.RecentCalls {
					if call.Path != "/api/"+call.Endpoint+name {
						t.Errorf("recorded the path %s", call.Path)
					}
				}
				a.expect(t, "names", 1)
				a.expect(t, "stripped", 1)
			})
		},
	}
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
