package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/client"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

const webhookSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

// receiver has the ids of the events that it answered with 2xx.
type receiver struct {
	mu    sync.Mutex
	posts map[string]int             // by id
	ids   map[string]map[string]bool // by type, account and threshold
}

// ServeHTTP fails every second post of an event, beginning with the first.
func (r *receiver) ServeHTTP(t *testing.T, w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // the gate was killed
	}
	verifier, err := standardwebhooks.NewWebhook(webhookSecret)
	if err != nil {
		t.Error(err)
		return
	}
	if err := verifier.Verify(body, request.Header); err != nil {
		t.Errorf("verifying %s: %v", body, err)
	}
	e := decode[struct {
		Type string
		Data struct {
			Account, Endpoint, Period string
			Threshold                 int
		}
	}](t, string(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	id := request.Header.Get("webhook-id")
	if r.posts[id]++; r.posts[id]%2 == 1 {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	name := fmt.Sprint(e.Type, " ", e.Data.Account, " ", e.Data.Endpoint, " ", e.Data.Period, " ", e.Data.Threshold)
	if r.ids[name] == nil {
		r.ids[name] = map[string]bool{}
	}
	r.ids[name][id] = true
}

// withWebhook returns the shipped Caddyfile with a webhook.
func withWebhook(t *testing.T, url string) string {
	return stack.Shipped(t, "rates 1000\n", "rates 10\n", "guard /api/\n", fmt.Sprintf("guard /api/\nwarn 80\nwebhook %s {\nsecret %s\n"+
		"events tollgate.quota_warning tollgate.quota_exceeded\n}\n", url, webhookSecret))
}

// accountsWithKeys makes accounts with a key each, and returns their tokens.
func accountsWithKeys(t *testing.T, s *stack.Stack, n int) (tokens []string) {
	t.Helper()
	control, err := client.New(s.Control(), stack.Secret)
	must(t, err)
	for i := range n {
		account := fmt.Sprintf("acc_%d", i)
		_, err := control.PutAccount(t.Context(), account, api.AccountChange{Plan: new("starter")})
		must(t, err)
		key, err := control.CreateKey(t.Context(), account, api.KeyRequest{Name: "ci"})
		must(t, err)
		tokens = append(tokens, key.Token)
	}
	return tokens
}

// callAll calls with each token several times, from 8 goroutines. It calls
// halfway, unless that is nil, when half of the calls are made.
func callAll(s *stack.Stack, tokens []string, calls int, halfway func()) (counts map[int]int64) {
	var made atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	counts = map[int]int64{}
	slots := make(chan struct{}, 8)
	for _, token := range tokens {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			for range calls {
				status := noAnswer
				if response, _, err := s.TryCall("GET", ratesPath, token, nil); err == nil {
					status = response.StatusCode
				}
				mu.Lock()
				counts[status]++
				mu.Unlock()
				if made.Add(1) == int64(len(tokens)*calls/2) && halfway != nil {
					halfway()
				}
			}
		})
	}
	group.Wait()
	return counts
}

// metric returns the value of a metric without labels.
func metric(t *testing.T, s *stack.Stack, name string) string {
	t.Helper()
	response, err := http.Get(s.Admin() + "/metrics")
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestWebhook crosses 80 % and 100 % of a limit with many accounts, while
// Caddy is restarted twice and killed once, and the receiver fails half of
// the time. Each event arrives, with one id, and no other does.
func TestWebhook(t *testing.T) {
	t.Parallel()
	const accounts = 40
	r := &receiver{posts: map[string]int{}, ids: map[string]map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) { r.ServeHTTP(t, w, request) }))
	t.Cleanup(server.Close)
	s := stack.Start(t, withWebhook(t, server.URL))
	tokens := accountsWithKeys(t, s, accounts)
	for _, interrupt := range []func(){
		func() { s.StopCaddy() }, s.KillCaddy, func() { s.StopCaddy() },
	} {
		// The calls after the interrupt get no answer, or 503 while Caddy stops.
		counts := callAll(s, tokens, 8, interrupt)
		for status, n := range counts {
			if status != http.StatusOK && status != http.StatusTooManyRequests && status != noAnswer {
				t.Errorf("%d calls got %d", n, status)
			}
		}
		s.StartCaddy()
	}
	for status, n := range callAll(s, tokens, 12, nil) {
		if status != http.StatusOK && status != http.StatusTooManyRequests {
			t.Errorf("%d calls got %d", n, status)
		}
	}
	want := map[string]bool{}
	for i := range accounts {
		want[fmt.Sprintf("tollgate.quota_warning acc_%d rates day 80", i)] = true
		want[fmt.Sprintf("tollgate.quota_exceeded acc_%d rates day 100", i)] = true
	}
	eventually(t, "all events", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.ids) < len(want) {
			return fmt.Errorf("%d of %d arrived", len(r.ids), len(want))
		}
		return nil
	})
	eventually(t, "the end of the queue", func() error {
		if queue := metric(t, s, "caddy_tollgate_webhook_queue"); queue != "0" {
			return fmt.Errorf("%s events wait", queue)
		}
		return nil
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, ids := range r.ids {
		if !want[name] || len(ids) != 1 {
			t.Errorf("got %s with the ids %v", name, ids)
		}
	}
}
