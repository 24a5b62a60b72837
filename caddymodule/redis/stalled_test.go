package redis_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/logging"

	"github.com/caddy-tollgate/tollgate/internal/calendar"
	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
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
	t.Cleanup(func() {
		_ = server.Resume()
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	if err := load(fmt.Sprintf(`{
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
`, file, server.URL(), secret, service.Listener.Addr())); err != nil {
		t.Fatal(err)
	}
	db := opened(t)
	awaitStore(t)
	if _, err := storetest.PutAccount(t.Context(), db, store.Account{ID: "acc_1", Plan: "small", CreatedAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	made, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&storetest.Store{Book: db}).CreateKey(t.Context(), store.Key{ID: "key_1", Account: "acc_1", Name: "ci", Kind: token.Key, Abilities: []string{"rates"}, CreatedAt: time.Now()}, made.Hash()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"GET /api/rates", "POST /api/login"} {
		method, path, _ := strings.Cut(line, " ")
		r, err := http.NewRequest(method, "http://"+address(t)+path, strings.NewReader(`{"email":"a@example.com","password":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+made.Reveal())
		r.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		log, err := os.ReadFile(file)
		if err != nil || response.StatusCode != http.StatusBadGateway {
			t.Fatalf("%s: got %d, %v", line, response.StatusCode, err)
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
	eventually(t, "the refund", func() bool {
		day := calendar.UTCDay(time.Now())
		counts, err := db.Counts(t.Context(), "acc_1", "", day-1, day)
		return err == nil && !slices.ContainsFunc(counts, func(c store.Count) bool { return c.Used > 0 })
	})
}

// address returns where the site listens.
func address(t *testing.T) string {
	t.Helper()
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range app.(*caddyhttp.App).Servers {
		for _, listener := range s.Listeners() {
			return listener.Addr().(*net.TCPAddr).String()
		}
	}
	t.Fatal("the site does not listen")
	return ""
}
