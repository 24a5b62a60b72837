package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// modelOptions are options with a model behind Caddy's proxy. Its calls take 4096 until
// it tells what they cost.
const modelOptions = `
		guard /v1/
		endpoint chat POST /v1/chat {
			cost answer Tollgate-Cost reserve 4096
		}
		endpoint list GET /v1/models
		warn 80
		plan free
		plan %s
`

// startModel starts a service that answers when release is closed, and tells a
// cost that the request asks for.
func startModel(t *testing.T) (address string, began chan struct{}, release func()) {
	t.Helper()
	began, held := make(chan struct{}, 100), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		if r.Header.Get("X-Wait") != "" {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Tollgate-Cost", r.Header.Get("X-Cost"))
	}))
	release = sync.OnceFunc(func() { close(held) })
	t.Cleanup(service.Close)
	t.Cleanup(release)
	return strings.TrimPrefix(service.URL, "http://"), began, release
}

// TestOnlyReserved: 30 parallel calls have reserved all of a day that they hardly
// use. The others wait for seconds, and no event says that the day is used up.
// When it is, the event comes.
func TestOnlyReserved(t *testing.T) {
	for name, limit := range map[string]string{
		"day": "chat 98304", "month": "chat 98304 month", "all": "chat unlimited\n* 98304", "all of the month": "chat unlimited\n* 98304 month",
	} {
		t.Run(name, func(t *testing.T) {
			address, began, release := startModel(t)
			handled.Lock()
			handled.events = nil
			handled.Unlock()
			s := start(t, setup{
				zone: calmZone(), gate: fmt.Sprintf(modelOptions, "tokens {\nlist unlimited\n"+limit+"\n}"), behind: "reverse_proxy " + address,
				global: "events {\n\ton tollgate.quota_exceeded tollgate_test\n\ton tollgate.quota_warning tollgate_test\n}",
			})
			account, bearer := s.account(t, "tokens", "chat", "list")
			chat := func(cost int, more ...string) answered {
				return s.ask(t, "POST", "/v1/chat", "{}", append(more, "Authorization: Bearer "+bearer, fmt.Sprint("X-Cost: ", cost))...)
			}
			const parallel, fit = 30, 24
			answers := make(chan answered, parallel)
			for range parallel {
				go func() { answers <- chat(28, "X-Wait: yes") }()
			}
			for range parallel {
				select {
				case <-began:
				case got := <-answers:
					wantReserved(t, got)
				}
			}
			if strings.Contains(limit, "*") {
				wantReserved(t, s.get(t, "/v1/models", bearer))
			}
			release()
			for range fit {
				if got := <-answers; got.status != http.StatusOK {
					t.Errorf("got %+v", got)
				}
			}
			eventually(t, "the settlements", func() bool { return s.used(t, account, "chat") == fit*28 })
			if got := chat(97_000); got.status != http.StatusOK {
				t.Fatalf("got %+v", got)
			}
			eventually(t, "the last settlement", func() bool { return s.used(t, account, "chat") == fit*28+97_000 })
			eventually(t, "the end", func() bool { return chat(1).code() == "quota_exceeded" })
			eventually(t, "the events", func() bool {
				handled.Lock()
				defer handled.Unlock()
				return len(handled.events) == 2
			})
			if got := fmt.Sprint(handled.events); got != fmt.Sprintf("[tollgate.quota_warning %s 80 tollgate.quota_exceeded %[1]s 100]", account) {
				t.Errorf("got %s", got)
			}
			if got := chat(1); got.header.Get("X-Should-Retry") != "false" || len(got.header.Get("Retry-After")) < 2 {
				t.Errorf("at the end of the day: got %+v", got)
			}
		})
	}
}

// wantReserved expects the refusal of a call that waits for others.
func wantReserved(t *testing.T, got answered) {
	t.Helper()
	var body struct {
		Message, Code, Endpoint, Period, Of string
		Limit                               int64
		ResetsAt                            string `json:"resets_at"`
	}
	err := json.Unmarshal([]byte(got.body), &body)
	if err != nil || got.status != http.StatusTooManyRequests || body.Code != "quota_reserved" || body.Endpoint == "" || body.Period == "" || body.Of != "account" ||
		body.Limit != 98_304 || body.ResetsAt == "" || got.header.Get("Retry-After") != "2" || got.header.Get("X-Should-Retry") != "true" || got.header.Get("Ratelimit") == "" {
		t.Errorf("got %+v (%v)", got, err)
	}
}
