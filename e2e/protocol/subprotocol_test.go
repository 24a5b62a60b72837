package protocol_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/caddy-tollgate/tollgate/tools/npmtest"
	"github.com/caddy-tollgate/tollgate/upstream/portal/web/browsertest"
)

// socketServer is a server of npm's ws. It chooses the subprotocol with GraphQL
// in its name if the client offers it, and tells what it has chosen. It prints
// its port.
const socketServer = `
const {WebSocketServer} = require('ws')
const server = new WebSocketServer({host: '127.0.0.1', port: 0, handleProtocols: offered => [...offered].find(p => p.startsWith('graphql')) ?? false})
server.on('connection', socket => socket.send('chosen ' + socket.protocol))
server.on('listening', () => console.log(server.address().port))
process.stdin.resume().on('end', () => process.exit())
`

// socketClient opens a WebSocket, in a browser or with npm's ws, and tells which
// subprotocol both sides have.
const socketClient = `new Promise(done => {
	const socket = new WebSocket(%q, %s)
	socket.onmessage = message => { done(socket.protocol + ', ' + message.data); socket.close() }
	socket.onerror = event => done('error ' + event.message)
})`

// offers are the subprotocols that clients offer, and what client and service
// then have. KEY is the token.
var offers = []struct{ name, offer, want string }{
	{"service chooses", `['graphql-transport-ws', 'tollgate', 'tollgate.bearer.KEY']`, "graphql-transport-ws, chosen graphql-transport-ws"},
	{"gate chooses", `['tollgate', 'tollgate.bearer.KEY']`, "tollgate, chosen "},
}

// subprotocols are WebSockets with the token as a subprotocol, in front of a
// real server, with real clients: both check that the answer has one subprotocol
// and that it was offered.
func subprotocols(t *testing.T) protocol {
	const path = "/api/subprotocol"
	modules := npmtest.Install(t, "ws@8.18.3")
	server := node(t, modules, socketServer)
	input, err := server.StdinPipe()
	must(t, err)
	output, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	t.Cleanup(func() {
		input.Close()
		must(t, server.Wait())
	})
	port, err := bufio.NewReader(output).ReadString('\n')
	must(t, err)
	behind := "reverse_proxy 127.0.0.1:" + strings.TrimSpace(port)
	return protocol{
		endpoints: []endpoint{{name: "subprotocol", method: "GET", path: path, block: "{\nupgrade\n}", behind: behind}},
		test: func(t *testing.T, s *site) {
			a := s.account(t, "large")
			address := strings.Replace(s.Address, "http", "ws", 1) + path
			page := browsertest.Start(t).Person()
			page.Go(s.Address + "/")
			for _, o := range offers {
				script := fmt.Sprintf(socketClient, address, strings.Replace(o.offer, "KEY", a.token, 1))
				t.Run(o.name+", ws", func(t *testing.T) {
					out, err := node(t, modules, "const WebSocket = require('ws');"+script+".then(console.log)").CombinedOutput()
					if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != o.want {
						t.Errorf("got %q, %v, want %q", got, err, o.want)
					}
				})
				t.Run(o.name+", browser", func(t *testing.T) {
					if got := browsertest.EvaluateAsync[string](page, script); got != o.want {
						t.Errorf("got %q, want %q", got, o.want)
					}
				})
				t.Run(o.name+", HTTP/3", func(t *testing.T) {
					offered := strings.NewReplacer("[", "", "]", "", "'", "", "KEY", a.token).Replace(o.offer)
					if got, want := chosenOverQUIC(t, s, path, offered), strings.Split(o.want, ",")[0]; got != want {
						t.Errorf("got %q, want %q", got, want)
					}
				})
			}
			a.expect(t, "subprotocol", int64(3*len(offers)))
		},
	}
}

// node returns a program of Node with these modules.
func node(t *testing.T, modules, script string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.cjs")
	must(t, os.WriteFile(file, []byte(script), 0o600))
	command := exec.Command("node", file)
	command.Env = append(os.Environ(), "NODE_PATH="+modules)
	return command
}

// chosenOverQUIC opens a WebSocket over HTTP/3 and returns the subprotocols of
// the answer.
func chosenOverQUIC(t *testing.T, s *site, path, offered string) string {
	t.Helper()
	conn, err := quic.DialAddr(t.Context(), strings.TrimPrefix(s.secure, "https://"), &tls.Config{RootCAs: s.roots, NextProtos: []string{http3.NextProtoH3}}, nil)
	must(t, err)
	defer conn.CloseWithError(0, "")
	stream, err := new(http3.Transport).NewClientConn(conn).OpenRequestStream(t.Context())
	must(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodConnect, s.secure+path, http.NoBody)
	must(t, err)
	r.Proto = "websocket"
	r.Header.Set("Sec-Websocket-Version", "13")
	r.Header.Set("Sec-Websocket-Protocol", offered)
	must(t, stream.SendRequestHeader(r))
	response, err := stream.ReadResponse()
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", response, err)
	}
	return strings.Join(response.Header.Values("Sec-Websocket-Protocol"), ", ")
}
