package protocol_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fastCGI is a responder behind php_fastcgi. It answers with what a script
// sees.
func fastCGI(t *testing.T) protocol {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	// The end of the listener ends it with an error.
	go fcgi.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		// Its headers are the variables HTTP_TOLLGATE_ACCOUNT and so on.
		fmt.Fprintf(w, "%s|%s|%q|%s|%s", r.Header.Get("Tollgate-Account"), r.Header.Get("Tollgate-Plan"), r.Header.Values("Authorization"), fcgi.ProcessEnv(r)["REMOTE_USER"], body)
	}))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.php"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return protocol{
		endpoints: []endpoint{
			{name: "script", method: "POST", path: "/api/script", behind: fmt.Sprintf("root %s\nphp_fastcgi %s", dir, listener.Addr())},
			{name: "script_dead", method: "POST", path: "/api/script/dead", behind: fmt.Sprintf("root %s\nphp_fastcgi %s", dir, deadAddress)},
		},
		test: func(t *testing.T, s *site) {
			a := s.account(t, "large")
			response, text := a.call(t, s.plain(), "POST", "/api/script", strings.NewReader("body"), "Tollgate-Account", "other")
			if want := fmt.Sprintf("%s|large|[]|%s|body", a.id, a.id); response.StatusCode != http.StatusOK || text != want {
				t.Errorf("got %d %q, want %q", response.StatusCode, text, want)
			}
			a.expect(t, "script", 1)
			response, text = a.call(t, s.plain(), "POST", "/api/script/dead", strings.NewReader("body"))
			unreachable(t, response, text, "script_dead")
			a.expect(t, "script_dead", 0)
			a.token = ""
			if response, text := a.call(t, s.plain(), "POST", "/api/script", strings.NewReader("body")); response.StatusCode != http.StatusUnauthorized {
				t.Errorf("got %d %s without a token", response.StatusCode, text)
			}
		},
	}
}
