package e2e_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
	"github.com/caddy-tollgate/tollgate/internal/calendar"
)

// issued is what "caddy tollgate key create --json" prints.
type issued struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

func newAccount(t *testing.T, s *stack.Stack, email, plan string) string {
	t.Helper()
	out := s.Upstream("correct horse battery staple\n", "account", "add", "--email", email, "--plan", plan)
	return strings.TrimSpace(out)
}

func newKey(t *testing.T, s *stack.Stack, account, name string) issued {
	t.Helper()
	return decode[issued](t, s.Tollgate("key", "create", account, "--name", name, "--json"))
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("decoding %q: %v", text, err)
	}
	return v
}

// code is the code member of a refusal's body.
func code(t *testing.T, body string) string {
	t.Helper()
	return decode[struct{ Message, Code string }](t, body).Code
}

// TestJourney uses accounts, keys, the limit, a revocation and restarts, as an
// operator and two clients do.
func TestJourney(t *testing.T) { stack.Forms(t, journey) }

func journey(t *testing.T, form ...string) {
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 5\n"), form...)
	ada := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, ada, "ci")

	t.Run("exactly the limit is admitted", func(t *testing.T) {
		admitLimit(t, s, newKey(t, s, newAccount(t, s, "bob@example.com", "starter"), "ci").Token)
		response, _ := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil)
		if response.StatusCode != http.StatusOK {
			t.Errorf("another account got status %d, want 200", response.StatusCode)
		}
	})
	t.Run("a revoked key is refused", func(t *testing.T) {
		s.Tollgate("key", "revoke", ada, key.ID)
		response, text := s.Call("GET", "/api/rates/EUR", key.Token, nil)
		if response.StatusCode != http.StatusUnauthorized || code(t, text) != "invalid_token" {
			t.Errorf("got %d %s", response.StatusCode, text)
		}
	})
}

// admitLimit makes fifty simultaneous calls with a limit of five, and checks
// the refusals.
func admitLimit(t *testing.T, s *stack.Stack, token string) {
	var ok, refused atomic.Int64
	var group sync.WaitGroup
	days, err := calendar.New(stack.CalmZone())
	must(t, err)
	for range 50 {
		group.Go(func() {
			before := time.Now()
			response, text, err := s.TryCall("GET", "/api/convert/USD/100/EUR", token, nil)
			if err != nil {
				t.Error(err)
				return
			}
			switch response.StatusCode {
			case http.StatusOK:
				ok.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
				checkExhausted(t, days, before, response, text)
			default:
				t.Errorf("got %d %s", response.StatusCode, text)
			}
		})
	}
	group.Wait()
	if ok.Load() != 5 || refused.Load() != 45 {
		t.Errorf("%d admitted and %d refused, want 5 and 45", ok.Load(), refused.Load())
	}
	if response, _ := s.Call("GET", "/api/rates/EUR", token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("another endpoint got status %d, want 200", response.StatusCode)
	}
	s.StopCaddy()
	s.StartCaddy()
	if response, _ := s.Call("GET", "/api/convert/USD/100/EUR", token, nil); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("after a restart got status %d, want 429", response.StatusCode)
	}
	s.KillCaddy()
	s.StartCaddy()
	if response, _ := s.Call("GET", "/api/convert/USD/100/EUR", token, nil); response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("after kill -9 got status %d, want 429", response.StatusCode)
	}
}

func checkExhausted(t *testing.T, days *calendar.Calendar, before time.Time, response *http.Response, text string) {
	t.Helper()
	body := decode[struct {
		Message  string
		Code     string
		Endpoint string
		Limit    int
		ResetsAt time.Time `json:"resets_at"`
	}](t, text)
	if body.Message == "" || body.Code != "quota_exceeded" || body.Endpoint != "convert" || body.Limit != 5 || !body.ResetsAt.Equal(days.At(before).End) {
		t.Errorf("got body %s", text)
	}
	seconds, err := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 64)
	latest, earliest := days.At(before).RetryAfter(before), days.At(before).RetryAfter(time.Now())
	if err != nil || seconds > latest || seconds < earliest {
		t.Errorf("got Retry-After %q, want %d to %d", response.Header.Get("Retry-After"), earliest, latest)
	}
	if got, want := response.Header.Get("RateLimit"), `"convert";r=0;t=`+response.Header.Get("Retry-After"); got != want {
		t.Errorf("got RateLimit %s, want %s", got, want)
	}
	if got := response.Header.Get("RateLimit-Policy"); !strings.HasPrefix(got, `"convert";q=5;w=`) {
		t.Errorf("got RateLimit-Policy %s", got)
	}
}
