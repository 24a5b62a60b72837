package caddymodule_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestQuota admits exactly as many calls as the plan says, however many
// come at once, and tells each how many are left.
func TestQuota(t *testing.T) {
	s := start(t, setup{zone: calmZone()})
	id, bearer := s.account(t, "small")
	midnight := compiled(t).Calendar.At(time.Now()).End
	answers := make([]answered, 50)
	var wg sync.WaitGroup
	before := time.Now()
	for i := range answers {
		wg.Go(func() { answers[i] = s.get(t, convert, bearer) })
	}
	wg.Wait()
	after := time.Now()

	// Whoever waits so long finds the next day: whole seconds, rounded up.
	most, least := ceil(midnight.Sub(before)), ceil(midnight.Sub(after))
	left := map[int64]int{}
	refused := 0
	for _, got := range answers {
		if policy := got.header.Get("Ratelimit-Policy"); policy != `"convert";q=5;w=86400` {
			t.Errorf("got RateLimit-Policy %s", policy)
		}
		var r, seconds int64
		if _, err := fmt.Sscanf(got.header.Get("Ratelimit"), `"convert";r=%d;t=%d`, &r, &seconds); err != nil || seconds > most || seconds < least {
			t.Errorf("got RateLimit %q (%v), want t from %d to %d", got.header.Get("Ratelimit"), err, least, most)
		}
		if vary := got.header.Get("Vary"); vary != "Authorization" {
			t.Errorf("got Vary %q", vary)
		}
		switch got.status {
		case 200:
			left[r]++
			if retry := got.header.Get("Retry-After"); retry != "" {
				t.Errorf("got Retry-After %q with 200", retry)
			}
		case 429:
			refused++
			checkExhausted(t, got, midnight, seconds)
		default:
			t.Errorf("got %+v", got)
		}
	}
	for r := range int64(5) {
		if left[r] != 1 {
			t.Errorf("%d answers said that %d calls are left, want 1", left[r], r)
		}
	}
	if refused != 45 || s.upstream.seen() != 5 || s.used(t, id, "convert") != 5 {
		t.Errorf("got %d refusals, %d calls at the upstream, %d counted; want 45, 5, 5", refused, s.upstream.seen(), s.used(t, id, "convert"))
	}
}

func ceil(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// checkExhausted looks at the body of a 429 whose RateLimit said t.
func checkExhausted(t *testing.T, got answered, midnight time.Time, seconds int64) {
	t.Helper()
	if retry := got.header.Get("Retry-After"); retry != strconv.FormatInt(seconds, 10) {
		t.Errorf("got Retry-After %q, want %d", retry, seconds)
	}
	if got.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(got.header.Get("Ratelimit"), `"convert";r=0;`) {
		t.Errorf("got headers %v", got.header)
	}
	var body struct {
		Message, Code, Endpoint, Period, Of string

		Limit     int
		ResetsAt  time.Time `json:"resets_at"`
		RequestID string    `json:"request_id"`
	}
	decoder := json.NewDecoder(strings.NewReader(got.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&body); err != nil || body.Code != "quota_exceeded" || body.Endpoint != "convert" || body.Period != "day" || body.Of != "account" ||
		body.Limit != 5 || body.RequestID == "" || !body.ResetsAt.Equal(midnight) || !strings.Contains(strings.ToLower(body.Message), "daily api limit exceeded") {
		t.Errorf("got body %s (%v)", got.body, err)
	}
}
