package redis_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/caddytest"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
)

// TestStalledRedisDelaysNo502: Redis hangs while the service crashes. The client
// gets its 502 before the store has given up, and the refund is made when Redis
// works again. So is the place of a login attempt.
func TestStalledRedisDelaysNo502(t *testing.T) {
	server := redistest.Start(t)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if err := server.Pause(); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(service.Close)
	file := filepath.Join(t.TempDir(), "caddy.log")
	client := caddytest.Start(t, fmt.Sprintf(`{
	admin off
	persist_config off
	log {
		output file %s
	}
	tollgate {
		store redis %s {
			timeout 10s
		}
		secret %s
		timezone UTC
		guard /api/
		login POST /api/login
		endpoint rates GET /api/rates
		plan small {
			rates 5
		}
	}
}
http://:0 {
	bind 127.0.0.1
	tollgate
	reverse_proxy %s
}
`, file, server.URL(), secret, service.Listener.Addr()))
	t.Cleanup(func() { _ = server.Resume() })
	awaitStore(t)
	bearer := caddytest.Account(t, "acc_1", "small", "rates")
	for _, line := range []string{"GET /api/rates", "POST /api/login"} {
		method, path, _ := strings.Cut(line, " ")
		got, err := client.Try(t.Context(), method, path, `{"email":"a@example.com","password":"x"}`, "Authorization: Bearer "+bearer, "Content-Type: application/json")
		if err != nil {
			t.Fatal(err)
		}
		log, err := os.ReadFile(file)
		if err != nil || got.Status != http.StatusBadGateway {
			t.Fatalf("%s: got %d, %v", line, got.Status, err)
		}
		for _, late := range []string{"settling the cost", "login attempts"} {
			if strings.Contains(string(log), late) {
				t.Errorf("%s: the answer came after the store had given up: %s", line, log)
			}
		}
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the refund", func() bool { return caddytest.Used(t, "acc_1", "rates") == 0 })
}
