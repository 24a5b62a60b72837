package redistest_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/store/redisstore/redistest"
)

// connect returns a client that the test closes.
func connect(t *testing.T, option rueidis.ClientOption) rueidis.Client {
	t.Helper()
	option.DisableCache, option.DisableRetry, option.AlwaysPipelining = true, true, true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatalf("connecting: %v", err)
	}
	t.Cleanup(client.Close)
	return client
}

// do sends one command and returns the reply as text.
func do(t *testing.T, client rueidis.Client, command ...string) (string, error) {
	t.Helper()
	reply, err := client.Do(t.Context(), client.B().Arbitrary(command...).Build()).ToAny()
	return fmt.Sprint(reply), err
}

// must sends one command as an administrator.
func must(t *testing.T, server *redistest.Server, command ...string) any {
	t.Helper()
	reply, err := server.Do(command...)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	must(t, server, "SET", "text", "two\r\nlines")
	for _, test := range []struct {
		command []string
		want    any
	}{
		{[]string{"GET", "text"}, "two\r\nlines"},
		{[]string{"GET", "absent"}, nil},
		{[]string{"INCR", "number"}, int64(1)},
		{[]string{"MGET", "text", "absent"}, []any{"two\r\nlines", nil}},
		{[]string{"CONFIG", "GET", "appendonly"}, []any{"appendonly", "no"}},
		{[]string{"CONFIG", "GET", "save"}, []any{"save", ""}},
	} {
		if got, want := must(t, server, test.command...), test.want; fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
			t.Errorf("%v answered %#v, want %#v", test.command, got, want)
		}
	}
	_, err := server.Do("INCR", "text")
	var refused redistest.ReplyError
	if !errors.As(err, &refused) || !strings.HasPrefix(string(refused), "ERR value is not an integer") {
		t.Errorf("INCR of a text: %v", err)
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "requirepass secret", "user gate on >other ~gate:* +@all")
	if got, want := server.URL(), "redis://:secret@"+server.Addr(); got != want {
		t.Errorf("URL is %s, want %s", got, want)
	}
	if _, err := do(t, connect(t, rueidis.MustParseURL(server.URL())), "SET", "key", "1"); err != nil {
		t.Errorf("with the password: %v", err)
	}
	gate := connect(t, rueidis.MustParseURL("redis://gate:other@"+server.Addr()))
	if _, err := do(t, gate, "SET", "gate:key", "1"); err != nil {
		t.Errorf("as the user gate: %v", err)
	}
	if _, err := do(t, gate, "SET", "key", "2"); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("as the user gate, another key: %v", err)
	}
	option := rueidis.MustParseURL("redis://" + server.Addr())
	if client, err := rueidis.NewClient(option); err == nil {
		client.Close()
		t.Error("a client without a password was accepted")
	}
	if got := must(t, server, "GET", "key"); got != "1" {
		t.Errorf("the key is %v", got)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := dial(t, server.Addr())
	client.send(t, "INCR n")
	client.want(t, ":1")
	check(t, server.Pause())
	client.send(t, "INCR n")
	client.wantSilence(t)
	check(t, server.Resume())
	client.want(t, ":2")
	check(t, server.Pause())
	check(t, server.Stop())
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		config []string
		end    func(*redistest.Server) error
		want   any
	}{
		{"memory, killed", nil, (*redistest.Server).Kill, nil},
		{"file, killed", []string{"appendonly yes", "appendfsync always"}, (*redistest.Server).Kill, "1"},
		{"file, stopped", []string{"appendonly yes"}, (*redistest.Server).Stop, "1"},
		{"file, running", []string{"appendonly yes"}, func(*redistest.Server) error { return nil }, "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, test.config...)
			address := server.Addr()
			must(t, server, "SET", "key", "1")
			check(t, test.end(server))
			check(t, server.Restart())
			if got := must(t, server, "GET", "key"); got != test.want || server.Addr() != address {
				t.Errorf("key %v at %s, want %v at %s", got, server.Addr(), test.want, address)
			}
		})
	}
}

// TestEnd checks that nothing stays behind, and that a server that ends by
// itself is noticed.
func TestEnd(t *testing.T) {
	t.Parallel()
	var server *redistest.Server
	t.Run("server", func(t *testing.T) { server = redistest.Start(t) })
	if conn, err := net.Dial("tcp", server.Addr()); err == nil {
		conn.Close()
		t.Error("the server runs after the end of its test")
	}
	if err := server.Pause(); err == nil {
		t.Error("a server that is down was paused")
	}
	server, err := redistest.Launch(t.TempDir())
	check(t, err)
	if _, err := server.Do("SHUTDOWN", "NOSAVE"); err == nil {
		t.Error("SHUTDOWN answered")
	}
	for deadline := time.Now().Add(later); server.Resume() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server runs after SHUTDOWN")
		}
	}
	if err := server.Kill(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("killing a server that has ended: %v", err)
	}
}

func TestLaunchFails(t *testing.T) {
	t.Parallel()
	server, err := redistest.Launch(t.TempDir(), "no-such-option yes")
	if err == nil {
		server.Kill()
		t.Fatal("the server started")
	}
	if !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("the error does not have the log: %v", err)
	}
}

func TestUnix(t *testing.T) {
	t.Parallel()
	server := redistest.StartUnix(t, "requirepass secret")
	if got, want := server.URL(), "unix://:secret@"+server.Addr(); got != want {
		t.Errorf("URL is %s, want %s", got, want)
	}
	watch := server.Monitor(t)
	option := rueidis.MustParseURL("unix://" + server.Addr())
	option.Password = "secret"
	if _, err := do(t, connect(t, option), "SET", "key", "1"); err != nil {
		t.Fatal(err)
	}
	if got := must(t, server, "GET", "key"); got != "1" {
		t.Errorf("the key is %v", got)
	}
	if sent, _ := watch(); !slices.Contains(sent, `"SET" "key" "1"`) || slices.Contains(sent, `"GET" "key"`) {
		t.Errorf("clients sent %q", sent)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server, files := redistest.StartTLS(t)
	if got, want := server.URL(), "rediss://"+server.Addr(); got != want {
		t.Errorf("URL is %s, want %s", got, want)
	}
	authority, err := os.ReadFile(files.CA)
	check(t, err)
	option := rueidis.MustParseURL(server.URL())
	option.TLSConfig.RootCAs = x509.NewCertPool()
	if !option.TLSConfig.RootCAs.AppendCertsFromPEM(authority) {
		t.Fatal("no certificate of the authority")
	}
	if client, err := rueidis.NewClient(option); err == nil {
		client.Close()
		t.Error("a client without a certificate was accepted")
	}
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	check(t, err)
	option.TLSConfig.Certificates = []tls.Certificate{pair}
	if _, err := do(t, connect(t, option), "SET", "key", "1"); err != nil {
		t.Fatal(err)
	}
	if got := must(t, server, "GET", "key"); got != "1" {
		t.Errorf("the key is %v", got)
	}
	if client, err := rueidis.NewClient(rueidis.MustParseURL("redis://" + server.Addr())); err == nil {
		client.Close()
		t.Error("a client without TLS was accepted")
	}
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, rueidis.MustParseURL(server.URL()))
	if _, err := do(t, client, "PING"); err != nil {
		t.Fatal(err)
	}
	watch := server.Monitor(t)
	const calls = 100
	for range calls {
		if _, err := do(t, client, "EVAL", "redis.call('INCR', KEYS[1]); return redis.call('GET', KEYS[1])", "1", "key"); err != nil {
			t.Fatal(err)
		}
		must(t, server, "STRLEN", "key")
	}
	sent, scripted := watch()
	if len(sent) != calls || len(scripted) != 2*calls {
		t.Fatalf("%d commands sent, %d called by scripts, want %d and %d", len(sent), len(scripted), calls, 2*calls)
	}
	if !strings.HasPrefix(sent[0], `"EVAL" `) || scripted[0] != `"INCR" "key"` || scripted[1] != `"GET" "key"` {
		t.Errorf("sent %s, called %s", sent[0], scripted[:2])
	}
	if _, err := do(t, client, "STRLEN", "a \"] [key"); err != nil {
		t.Fatal(err)
	}
	if sent, _ := watch(); len(sent) != calls+1 || sent[calls] != `"STRLEN" "a \"] [key"` {
		t.Errorf("sent %q", sent[calls:])
	}
	check(t, server.Kill())
	check(t, server.Restart())
	monitor, err := server.OpenMonitor()
	check(t, err)
	check(t, monitor.Close())
	if _, _, err := monitor.Commands(); err == nil {
		t.Error("a closed monitor answered")
	}
}
