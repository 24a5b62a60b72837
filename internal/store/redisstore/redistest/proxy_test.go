package redistest_test

import (
	"bufio"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// line is a connection that sends commands as lines.
type line struct {
	net.Conn
	reader *bufio.Reader
}

func dial(t *testing.T, address string) *line {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	return &line{conn, bufio.NewReader(conn)}
}

func (l *line) send(t *testing.T, command string) {
	t.Helper()
	_, err := l.Write([]byte(command + "\r\n"))
	check(t, err)
}

// receive returns a line, or the error after a time without one.
func (l *line) receive(within time.Duration) (string, error) {
	if err := l.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	return l.reader.ReadString('\n')
}

const (
	// soon is the time to wait for an answer that must not come.
	soon = 100 * time.Millisecond
	// later is the longest wait for an answer that must come.
	later = 20 * time.Second
)

func (l *line) want(t *testing.T, answer string) {
	t.Helper()
	if got, err := l.receive(later); err != nil || got != answer+"\r\n" {
		t.Errorf("got %q, %v, want %q", got, err, answer)
	}
}

func (l *line) wantSilence(t *testing.T) {
	t.Helper()
	if got, err := l.receive(soon); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v, want nothing", got, err)
	}
}

func (l *line) wantEnd(t *testing.T) {
	t.Helper()
	if got, err := l.receive(later); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %q, %v, want the end of the connection", got, err)
	}
}

// awaitCount waits until a server counted so many calls.
func awaitCount(t *testing.T, server *redistest.Server, want string) {
	t.Helper()
	for deadline := time.Now().Add(later); must(t, server, "GET", "n") != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the count is not %s", want)
		}
	}
}

func TestProxyStall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	old := dial(t, proxy.Addr())
	old.send(t, "INCR n")
	old.want(t, ":1")
	proxy.Stall()
	old.send(t, "INCR n")
	fresh := dial(t, proxy.Addr())
	fresh.send(t, "INCR n")
	old.wantSilence(t)
	fresh.wantSilence(t)
	check(t, server.Kill())
	// The end of the connection is not forwarded either.
	old.wantSilence(t)
	check(t, server.Restart())
	check(t, proxy.Resume())
	old.wantEnd(t)
	fresh.want(t, ":1")
	proxy.Stall()
	fresh.send(t, "INCR n")
	fresh.wantSilence(t)
	if got := must(t, server, "GET", "n"); got != "1" {
		t.Errorf("the count is %v: a stalled request arrived", got)
	}
	check(t, proxy.Resume())
	fresh.want(t, ":2")
	if got := proxy.Dials(); got != 2 {
		t.Errorf("%d connections, want 2", got)
	}
}

func TestProxyEatReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	eaten, idle := dial(t, proxy.Addr()), dial(t, proxy.Addr())
	for _, client := range []*line{eaten, idle} {
		client.send(t, "PING")
		client.want(t, "+PONG")
	}
	proxy.EatReplies()
	eaten.send(t, "INCR n")
	eaten.wantSilence(t)
	awaitCount(t, server, "1")
	check(t, proxy.Resume())
	eaten.wantEnd(t)
	idle.send(t, "INCR n")
	idle.want(t, ":2")
}

func TestProxyCutReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	proxy.CutReplies(3)
	client := dial(t, proxy.Addr())
	for _, want := range []string{":1", ":2"} {
		client.send(t, "INCR n")
		client.want(t, want)
	}
	client.send(t, "INCR n")
	client.wantEnd(t)
	awaitCount(t, server, "3")
	check(t, proxy.Resume())
	client = dial(t, proxy.Addr())
	for _, want := range []string{":4", ":5", ":6", ":7"} {
		client.send(t, "INCR n")
		client.want(t, want)
	}
}

func TestProxyCutAndRefuse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr())
	client := dial(t, proxy.Addr())
	client.send(t, "PING")
	client.want(t, "+PONG")
	proxy.Cut()
	client.wantEnd(t)
	client = dial(t, proxy.Addr())
	client.send(t, "PING")
	client.want(t, "+PONG")
	proxy.Refuse()
	if _, err := net.Dial("tcp", proxy.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting: %v", err)
	}
	client.send(t, "PING")
	client.want(t, "+PONG")
	proxy.Cut()
	client.wantEnd(t)
	check(t, proxy.Resume())
	client = dial(t, proxy.Addr())
	client.send(t, "PING")
	client.want(t, "+PONG")
	if got := proxy.Dials(); got != 3 {
		t.Errorf("%d connections, want 3", got)
	}
}
