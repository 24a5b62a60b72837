package caddymodule_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store"
)

// raw sends bytes on a connection of its own, and returns the answer without
// its date.
func raw(t *testing.T, port int, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^Date: .*\r\n`).ReplaceAllString(string(answer), "")
}

// TestShadowIsTransparent: in mode shadow, clients without a token of the gate
// get the bytes that Caddy without the gate sends, and the service gets the
// same request. All of them are in the list of refused calls.
func TestShadowIsTransparent(t *testing.T) {
	bare := freePort(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Header.Del("X-Forwarded-Host") // has the port
		if r.URL.Path == "/api/break" {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Tollgate-Own", "of the service")
		fmt.Fprintf(w, "%s %s %v %s", r.Method, r.URL, r.Header, body)
	}))
	t.Cleanup(service.Close)
	// Not by a reload: a connection just after it may reach the old server,
	// which closes it.
	s := start(t, setup{port: freePort(t), more: "mode shadow", behind: fmt.Sprintf(
		"reverse_proxy %s\n}\nhttp://:%d {\nbind 127.0.0.1\nreverse_proxy %[1]s", service.Listener.Addr(), bare)})
	for _, request := range []string{
		"GET " + convert + " HTTP/1.1\r\n",
		"HEAD " + convert + " HTTP/1.1\r\n",
		"GET " + convert + " HTTP/1.1\r\nAuthorization: Bearer other.system\r\nCookie: session=1\r\n",
		"GET " + convert + " HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n",
		"GET " + convert + "?access_token=x HTTP/1.1\r\n",
		"GET " + convert + " HTTP/1.1\r\nConnection: X-Own\r\nX-Own: 1\r\n",
		"DELETE " + convert + " HTTP/1.1\r\n",
		"GET /api/nothing HTTP/1.1\r\n",
		"GET /api/break HTTP/1.1\r\n",
		"POST /api/nothing HTTP/1.1\r\nContent-Length: 4\r\n",
		"GET /open HTTP/1.1\r\n",
	} {
		text := request + "Host: example.com\r\nConnection: close\r\n\r\n"
		if strings.Contains(request, "Length") {
			text += "body"
		}
		if got, want := raw(t, s.port, text), raw(t, bare, text); got != want {
			t.Errorf("%s\n got %s\nwant %s", request, got, want)
		}
	}
	if err := app(t).FlushReports(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := app(t).Book()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.ListRefused(t.Context(), "", 0, 1<<15-1, store.Refused{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	calls := int64(0)
	for _, row := range rows {
		calls += row.Calls
	}
	if calls != 10 {
		t.Errorf("%d refused calls are listed, want 10: %v", calls, rows)
	}
}
