package redistest_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/caddymodule/redis/redistest"
)

// set sets a key as a client of a URL.
func set(t *testing.T, url string, config *tls.Config, key, value string) error {
	t.Helper()
	option, err := rueidis.ParseURL(url)
	check(t, err)
	option.DisableCache, option.TLSConfig = true, config
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(t.Context(), client.B().Set().Key(key).Value(value).Build()).Error()
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
	if _, err := server.Do("INCR", "text"); err == nil || !strings.Contains(err.Error(), "value is not an integer") {
		t.Errorf("INCR of a text: %v", err)
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "requirepass secret", "user gate on >other ~gate:* +@all")
	if got, want := server.URL(), "redis://:secret@"+server.Addr(); got != want {
		t.Errorf("URL is %s, want %s", got, want)
	}
	gate := "redis://gate:other@" + server.Addr()
	for _, test := range []struct{ url, key, want string }{
		{server.URL(), "key", ""}, {gate, "gate:key", ""}, {gate, "key", "NOPERM"}, {"redis://" + server.Addr(), "key", "NOAUTH"},
	} {
		if err := set(t, test.url, nil, test.key, "1"); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s sets %s: got %v, want %q", test.url, test.key, err, test.want)
		}
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
	check(t, set(t, server.URL(), nil, "key", "1"))
	if got := must(t, server, "GET", "key"); got != "1" {
		t.Errorf("the key is %v", got)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server, files := redistest.StartTLS(t)
	authority, err := os.ReadFile(files.CA)
	check(t, err)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	check(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	check(t, set(t, "rediss://"+server.Addr(), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, "key", "1"))
	if got := must(t, server, "GET", "key"); got != "1" {
		t.Errorf("the key is %v", got)
	}
	if set(t, server.URL(), &tls.Config{RootCAs: roots}, "key", "2") == nil {
		t.Error("a client without a certificate was accepted")
	}
	if set(t, "redis://"+server.Addr(), nil, "key", "2") == nil {
		t.Error("a client without TLS was accepted")
	}
}

// TestSent: Sent has what stores send, and neither what scripts call nor what Do
// sends.
func TestSent(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ClientName: "tollgate"})
	check(t, err)
	defer client.Close()
	check(t, server.Watch())
	var want []string
	for i := range 100 {
		key := fmt.Sprint("key", i)
		check(t, client.Do(t.Context(), client.B().Arbitrary("EVAL", "return redis.call('INCR', KEYS[1])", "1", key).Build()).Error())
		must(t, server, "STRLEN", key)
		want = append(want, "EVAL return redis.call('INCR', KEYS[1]) 1 "+key)
	}
	if got, err := server.Sent(); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
