package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/store/redisstore"
)

// Formats of errors that repeat a command and its arguments.
const (
	ofRedis = "unknown command '%s', with args beginning with: %s" // if AUTH is renamed
	ofProxy = "unknown command: %s %s"
)

// startEcho starts a server that knows no command and repeats it. It returns
// its host and port.
func startEcho(t testing.TB, format string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go echo(client, format)
		}
	}()
	return listener.Addr().String()
}

// echo answers commands until the client closes the connection. A command is a
// list of strings, each after a line with its length.
func echo(client net.Conn, format string) {
	defer client.Close()
	reader := bufio.NewReader(client)
	for {
		var count int
		if _, err := fmt.Fscanf(reader, "*%d\r\n", &count); err != nil {
			return
		}
		command, repeated := make([]string, count), ""
		for i := range command {
			var length int
			if _, err := fmt.Fscanf(reader, "$%d\r\n", &length); err != nil {
				return
			}
			text := make([]byte, length+len("\r\n"))
			if _, err := io.ReadFull(reader, text); err != nil {
				return
			}
			command[i] = string(text[:length])
			if i > 0 && len(repeated) < 128 { // Redis cuts it as well
				repeated += fmt.Sprintf("'%.*s' ", 128-len(repeated), command[i])
			}
		}
		reply := fmt.Sprintf("-ERR "+format+"\r\n", command[0], repeated)
		if command[0] == "PING" {
			reply = "+PONG\r\n" // the client ends the program otherwise
		}
		if _, err := io.WriteString(client, reply); err != nil {
			return
		}
	}
}

// TestPasswordsAreHidden: neither errors nor the log have a password, or a part
// of it, that the server repeats.
func TestPasswordsAreHidden(t *testing.T) {
	t.Parallel()
	const secret = "topsecret"
	for _, test := range []struct{ name, format, before, after, password string }{
		{"Server", ofRedis, "redis://gate:%s@", "", secret},
		{"Long", ofRedis, "redis://gate:%s@", "", strings.Repeat(secret, 30)},
		{"Odd", ofRedis, "redis://gate:%s@", "", secret + `'"\ @%` + secret},
		{"Proxy", ofProxy, "redis://gate:%s@", "", secret},
		{"Cluster", ofRedis, "redis+cluster://gate:%s@", "", secret},
		{"Master", ofRedis, "redis+sentinel://gate:%s@", "/master", secret},
		{"Sentinel", ofRedis, "redis+sentinel://", "/master?sentinel_user=gate&sentinel_password=%s", secret},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address := startEcho(t, test.format)
			var log journal
			password := strings.ReplaceAll(url.QueryEscape(test.password), "+", "%20")
			s := openAny(t, redisstore.Options{
				URL:    strings.Replace(test.before+address+test.after, "%s", password, 1),
				Logger: log.logger(),
			})
			refuses(t, s, "unknown command")
			await(t, "a line of the log", func() bool { return log.has("unknown command") })
			_, err := s.Account(t.Context(), account)
			for _, err := range []error{takeOne(t, s), s.Check(t.Context()), err} {
				if err == nil || strings.Contains(err.Error(), "secret") {
					t.Errorf("an error has the password: %v", err)
				}
			}
			if log.has("secret") {
				t.Errorf("the log has the password: %s", log.text.String())
			}
		})
	}
}
