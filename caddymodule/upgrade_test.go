package caddymodule_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// live are options with an endpoint that takes WebSockets.
const live = `
		guard /api/
		endpoint live GET /api/live {
			upgrade
		}
		endpoint convert GET /api/convert/{from}/{amount}/{to}
		plan free
		plan small {
			live 5
			convert 100
		}
`

// TestUpgrades: an upgrade to WebSocket passes at endpoints with the option, as
// one call, and at open paths. Elsewhere it is refused and costs nothing. An
// upgrade to another HTTP or to TLS, which would take the connection away from
// the gate, is never passed on; the request is served without it.
func TestUpgrades(t *testing.T) {
	s := start(t, setup{zone: calmZone(), gate: live, upstream: func(w http.ResponseWriter, r *http.Request) {
		protocol := r.Header.Get("Upgrade")
		if protocol == "" {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol)
		_, _ = io.Copy(conn, conn) // until the client leaves
	}})
	id, bearer := s.account(t, "small", "live", "convert")
	_, free := s.account(t, "free", "live")
	const socket, h2c = "Connection: Upgrade\r\nUpgrade: websocket", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"
	for name, c := range map[string]struct {
		target, bearer, lines string
		status                string
		calls, seen           int
	}{
		"WebSocket":                       {"/api/live", bearer, socket, "101", 1, 1},
		"no token":                        {"/api/live", "", socket, "401", 0, 0},
		"plan without access":             {"/api/live", free, socket, "403", 0, 0},
		"nothing there":                   {"/api/nothing", bearer, socket, "404", 0, 0},
		"h2c at an endpoint with upgrade": {"/api/live", bearer, h2c, "200", 1, 1},
		"h2c in a list there":             {"/api/live", bearer, "Connection: Upgrade\r\nUpgrade: websocket, h2c", "400", 0, 0},
		"WebSocket without the option":    {convert, bearer, socket, "400", 0, 0},
		"the same in other case":          {convert, bearer, "Connection: keep-alive, uPGRADE\r\nUpgrade: WebSocket", "400", 0, 0},
		"the same without a token":        {convert, "", socket, "400", 0, 0},
		"another protocol":                {convert, bearer, "Connection: Upgrade\r\nUpgrade: my-protocol/2", "400", 0, 0},
		"h2c in a list":                   {convert, bearer, "Connection: Upgrade\r\nUpgrade: h2c, websocket", "400", 0, 0},
		"h2c, as Java's clients":          {convert, bearer, h2c, "200", 1, 1},
		"TLS":                             {convert, bearer, "Connection: Upgrade\r\nUpgrade: TLS/1.3", "200", 1, 1},
		"Upgrade without Connection":      {convert, bearer, "Upgrade: websocket", "200", 1, 1},
		"Connection without Upgrade":      {convert, bearer, "Connection: Upgrade", "200", 1, 1},
		"empty":                           {convert, bearer, "Connection: Upgrade\r\nUpgrade: ", "200", 1, 1},
		"WebSocket at an open path":       {"/live", "", socket, "101", 0, 1},
		"h2c at an open path":             {"/live", "", h2c, "200", 0, 1},
		"h2c in a list at an open path":   {"/live", "", "Connection: Upgrade\r\nUpgrade: websocket, h2c", "200", 0, 1},
		"TLS at an open path":             {"/live", "", "Connection: Upgrade\r\nUpgrade: TLS/1.0", "200", 0, 1},
		"HTTP/2.0 at an open path":        {"/live", "", "Connection: Upgrade\r\nUpgrade: HTTP/2.0", "200", 0, 1},
	} {
		calls := func() int { return int(s.used(t, id, "live") + s.used(t, id, "convert")) }
		before, seen := calls(), s.upstream.seen()
		lines := c.lines + "\r\n"
		if c.status != "101" {
			lines += "Connection: close\r\n"
		}
		if c.bearer != "" {
			lines += "Authorization: Bearer " + c.bearer + "\r\n"
		}
		conn := s.open(t, "GET "+c.target+" HTTP/1.1\r\nHost: gate.test\r\n"+lines+"\r\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		status := statusOf(line)
		if status != c.status || calls()-before != c.calls || s.upstream.seen()-seen != c.seen {
			t.Errorf("%s: got %s with %d counted and %d requests at the service", name, status, calls()-before, s.upstream.seen()-seen)
		}
		if c.seen == 1 && c.status == "200" {
			if r, _ := s.upstream.last(t); r.Header.Get("Upgrade") != "" || r.Header.Get("Http2-Settings") != "" || strings.Contains(fmt.Sprint(r.Header), bearer) {
				t.Errorf("%s: the service got %v", name, r.Header)
			}
		}
	}
}
