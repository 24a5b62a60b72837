package redistest_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// later is the longest wait for what must come.
const later = 20 * time.Second

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
