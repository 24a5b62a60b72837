package e2e_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
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

// TestJourney uses accounts, keys, every endpoint, the limit, a login, a
// revocation and restarts, as an operator and two clients do.
func TestJourney(t *testing.T) { stack.Forms(t, journey) }

func journey(t *testing.T, form ...string) {
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 5\n"), form...)
	ada := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, ada, "ci")

	t.Run("every endpoint answers with real numbers", func(t *testing.T) { callEverything(t, s, key.Token) })
	t.Run("exactly the limit is admitted", func(t *testing.T) {
		admitLimit(t, s, newKey(t, s, newAccount(t, s, "bob@example.com", "starter"), "ci").Token)
		response, _ := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil)
		if response.StatusCode != http.StatusOK {
			t.Errorf("another account got status %d, want 200", response.StatusCode)
		}
	})
	t.Run("a login gets a token that works", func(t *testing.T) {
		body := `{"email":"ada@example.com","password":"correct horse battery staple"}`
		response, text := s.Call("POST", "/api/login", "", strings.NewReader(body))
		login := decode[struct {
			Token     string `json:"token"`
			TokenType string `json:"token_type"`
			ExpiresIn int    `json:"expires_in"`
		}](t, text)
		if response.StatusCode != http.StatusOK || login.TokenType != "Bearer" || login.ExpiresIn != 86400 {
			t.Fatalf("got %d %s", response.StatusCode, text)
		}
		if response, _ := s.Call("GET", "/api/rates/EUR", login.Token, nil); response.StatusCode != http.StatusOK {
			t.Errorf("got status %d, want 200", response.StatusCode)
		}
	})
	t.Run("a wrong password and an unknown e-mail get the same answer", func(t *testing.T) {
		_, wrong := s.Call("POST", "/api/login", "", strings.NewReader(`{"email":"ada@example.com","password":"wrong password 123"}`))
		response, unknown := s.Call("POST", "/api/login", "", strings.NewReader(`{"email":"eve@example.com","password":"wrong password 123"}`))
		if response.StatusCode != http.StatusUnauthorized || wrong != unknown || code(t, wrong) != "invalid_credentials" {
			t.Errorf("got %d %s and %s", response.StatusCode, wrong, unknown)
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

func callEverything(t *testing.T, s *stack.Stack, token string) {
	calls := []struct {
		method, path, body string
		want               *regexp.Regexp
	}{
		{"GET", "/api/currencies", "", regexp.MustCompile(`^\{"date":"20\d\d-\d\d-\d\d","count":\d+,"currencies":\[\{"code":"A`)},
		{"GET", "/api/convert/USD/100/EUR", "", regexp.MustCompile(`^\{"from":"USD","to":"EUR","amount":100,"rate":0\.\d{5,},"result":\d+\.\d+,"rounded":\d+\.\d\d,"date":"20`)},
		{"GET", "/api/rates/EUR", "", regexp.MustCompile(`^\{"base":"EUR","date":"20\d\d-\d\d-\d\d","source":"\w+","rates":\{"AED":.*"EUR":1,.*"USD":1\.`)},
		{"GET", "/api/history/EUR/USD", "", regexp.MustCompile(`^\{"from":"EUR","to":"USD","start_date":.*"rates":\[\{"date":"20\d\d-\d\d-\d\d","rate":1\.\d+\}`)},
		{"POST", "/api/convert/batch", `{"conversions":[{"id":"a","from":"USD","to":"EUR","amount":100},{"from":"USD","to":"ZZZ","amount":1}]}`, regexp.MustCompile(`"succeeded":1,"failed":1,"results":\[\{"index":0,"id":"a","status":200,.*"unknown_currency"`)},
		{"GET", "/api/usage", "", regexp.MustCompile(`"endpoint":"convert","method":"GET","path":"/api/convert/\{from\}/\{amount\}/\{to\}","limit":5,"used":1,"remaining":4,"limits":\[.*"recent_calls":\[\{`)},
	}
	for _, c := range calls {
		var body *strings.Reader
		var response *http.Response
		var text string
		if c.body != "" {
			body = strings.NewReader(c.body)
			response, text = s.Call(c.method, c.path, token, body)
		} else {
			response, text = s.Call(c.method, c.path, token, nil)
		}
		if response.StatusCode != http.StatusOK || !c.want.MatchString(text) {
			t.Errorf("%s %s: got %d %.400s, want 200 %s", c.method, c.path, response.StatusCode, text, c.want)
		}
	}
}

// admitLimit makes fifty simultaneous calls with a limit of five, and checks
// the refusals.
func admitLimit(t *testing.T, s *stack.Stack, token string) {
	var ok, refused atomic.Int64
	var group sync.WaitGroup
	days, err := calendar.New(stack.CalmZone())
	if err != nil {
		t.Fatal(err)
	}
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
