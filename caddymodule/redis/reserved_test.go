package redis_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-tollgate/tollgate/internal/store"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
	"github.com/caddy-tollgate/tollgate/internal/store/storetest"
	"github.com/caddy-tollgate/tollgate/internal/token"
)

// TestOnlyReserved: with Redis, calls in progress that have reserved a day are not
// taken for its end.
func TestOnlyReserved(t *testing.T) {
	const parallel, fit = 30, 24
	began, held := make(chan struct{}, parallel), make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		began <- struct{}{}
		<-held
		w.Header().Set("Tollgate-Cost", "4000")
	}))
	t.Cleanup(service.Close)
	t.Cleanup(release)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping Caddy: %v", err)
		}
	})
	err = load(strings.Replace(onRedis("redis://"+redistest.Start(t).Addr()), "\t}\n}\n", fmt.Sprintf(`
		guard /v1/
		endpoint chat POST /v1/chat {
			cost answer Tollgate-Cost reserve 4096
		}
		plan tokens {
			chat 98304
		}
	}
}
http://%s {
	tollgate
	reverse_proxy %s
}
`, address, service.URL), 1))
	if err != nil {
		t.Fatal(err)
	}
	awaitStore(t)
	db, now := opened(t), time.Now()
	if _, err := storetest.PutAccount(t.Context(), db, store.Account{ID: "acc_1", Plan: "tokens", CreatedAt: now}); err != nil {
		t.Fatal(err)
	}
	tok, err := token.New(token.Key, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key{ID: "key_1", Account: "acc_1", Name: "ci", Kind: token.Key, Abilities: []string{"chat"}, CreatedAt: now}
	if err := storetest.New(db.Engine).CreateKey(t.Context(), key, tok.Hash()); err != nil {
		t.Fatal(err)
	}
	chat := func() string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/chat", nil)
		if err != nil {
			return err.Error()
		}
		r.Header.Set("Authorization", "Bearer "+tok.Reveal())
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return fmt.Sprint(answer.StatusCode, " ", answer.Header.Get("Retry-After"), " ", string(body), err)
	}
	answers := make(chan string, parallel)
	for range parallel {
		go func() { answers <- chat() }()
	}
	for range parallel {
		select {
		case <-began:
		case got := <-answers:
			if !strings.HasPrefix(got, "429 2 ") || !strings.Contains(got, `"quota_reserved"`) {
				t.Errorf("got %s", got)
			}
		}
	}
	release()
	for range fit {
		if got := <-answers; !strings.HasPrefix(got, "200 ") {
			t.Errorf("got %s", got)
		}
	}
	eventually(t, "the end of the day", func() bool { return strings.Contains(chat(), `"quota_exceeded"`) })
}
