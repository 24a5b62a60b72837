package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore"
)

// startEcho starts a server that knows no command and repeats it, as Redis does
// if AUTH is renamed, and as some proxies do. It returns its host and port.
func startEcho(t testing.TB) string {
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
			go echo(client)
		}
	}()
	return listener.Addr().String()
}

// echo answers commands until the client closes the connection.
func echo(client net.Conn) {
	defer client.Close()
	reader := bufio.NewReader(client)
	for {
		command, err := readCommand(reader)
		if err != nil {
			return
		}
		repeated := ""
		for _, argument := range command[1:] {
			if len(repeated) < 128 { // Redis cuts it as well
				repeated += fmt.Sprintf("'%.*s' ", 128-len(repeated), argument)
			}
		}
		if _, err := fmt.Fprintf(client, "-ERR unknown command '%s', with args beginning with: %s\r\n", command[0], repeated); err != nil {
			return
		}
	}
}

// readCommand reads a list of strings.
func readCommand(reader *bufio.Reader) (command []string, err error) {
	length := func(kind string) int {
		var line string
		if line, err = reader.ReadString('\n'); err != nil {
			return 0
		}
		var n int
		n, err = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(line, kind), "\r\n"))
		return n
	}
	for range length("*") {
		text := make([]byte, length("$")+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(reader, text)
		}
		if err != nil {
			return nil, err
		}
		command = append(command, string(text[:len(text)-len("\r\n")]))
	}
	return command, err
}

// TestPasswordsAreHidden: neither errors nor the log have a password, or a part
// of it, that the server repeats.
func TestPasswordsAreHidden(t *testing.T) {
	t.Parallel()
	const secret = "topsecret"
	for _, test := range []struct{ name, before, after, password string }{
		{"Server", "redis://gate:%s@", "", secret},
		{"NoUser", "redis://:%s@", "", secret},
		{"Long", "redis://gate:%s@", "", strings.Repeat(secret, 30)},
		{"Odd", "redis://gate:%s@", "", secret + `'"\ @%` + secret},
		{"Cluster", "redis+cluster://gate:%s@", "", secret},
		{"Master", "redis+sentinel://gate:%s@", "/master", secret},
		{"Sentinel", "redis+sentinel://", "/master?sentinel_user=gate&sentinel_password=%s", secret},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address := startEcho(t)
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
