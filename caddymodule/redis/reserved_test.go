package redis_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/caddytest"
	"github.com/caddy-tollgate/tollgate/internal/store/redisstore/redistest"
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
	client := caddytest.Start(t, strings.Replace(onRedis("redis://"+redistest.Start(t).Addr()), "\t}\n}\n", fmt.Sprintf(`
		guard /v1/
		endpoint chat POST /v1/chat {
			cost answer Tollgate-Cost reserve 4096
		}
		plan tokens {
			chat 98304
		}
	}
}
http://:0 {
	bind 127.0.0.1
	tollgate
	reverse_proxy %s
}
`, service.URL), 1))
	awaitStore(t)
	bearer := caddytest.Account(t, "acc_1", "tokens", "chat")
	chat := func() string {
		got, err := client.Try(t.Context(), http.MethodPost, "/v1/chat", "", "Authorization: Bearer "+bearer)
		return fmt.Sprint(got.Status, " ", got.Header.Get("Retry-After"), " ", got.Body, err)
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
