package caddymodule_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/internal/admin/control"
)

// TestTwoGatesOnOnePort: a gate whose control listener shares its port with
// another gate logs an error with the address. One that finds only itself logs
// none.
func TestTwoGatesOnOnePort(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "gate.example"} {
		for _, instance := range []string{"another", control.Instance} {
			port := freePort(t)
			asked := answerOnSamePort(t, host, port, instance)
			behind := fmt.Sprintf("reverse_proxy UPSTREAM\n}\nhttp://%s:%d {\nbind 127.0.0.1\ntollgate_control", host, port)
			_, log := logged(t, "ERROR", setup{behind: behind})
			found := func() bool { return strings.Contains(log(), "another gate listens on the same address") }
			if instance == "another" {
				eventually(t, "the other gate is found", found)
				if address := fmt.Sprintf(`"address":"127.0.0.1:%d"`, port); strings.Count(log(), address) != 1 {
					t.Errorf("the log does not have %s once: %s", address, log())
				}
				continue
			}
			eventually(t, "the gate asks", func() bool { return asked.Load() > 0 })
			if stop(t); found() {
				t.Errorf("the gate takes itself for another one: %s", log())
			}
		}
	}
}

// answerOnSamePort answers on a port that Caddy will share, as the site of a gate
// does.
func answerOnSamePort(t *testing.T, host string, port int, instance string) *atomic.Int64 {
	t.Helper()
	share := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		failed := conn.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		if err == nil {
			err = failed
		}
		return err
	}}
	listener, err := share.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	asked := new(atomic.Int64)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == fmt.Sprintf("%s:%d", host, port) {
			w.Header().Set(api.InstanceHeader, instance)
			asked.Add(1)
		}
	})}
	go func() { _ = server.Serve(listener) }() // ends with the test
	t.Cleanup(func() { server.Close() })
	return asked
}
