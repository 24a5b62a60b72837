package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/calendar"
	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// manyLimits gives starter four limits of convert.
var manyLimits = []string{"convert 1000\n", "convert 1000\n\t\t\tconvert 20000 month\n\t\t\t* 25000 month\n\t\t\t* 10 hour\n"}

// TestFourLimits shows all limits of a call in its fields and in the usage.
func TestFourLimits(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t, manyLimits...))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	days, err := calendar.New("UTC")
	if err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	response, _ := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil)
	after := time.Now()
	wants := map[string]bool{}
	for _, at := range []time.Time{before, after} {
		wants[fmt.Sprintf(`"convert";q=1000;w=86400,"convert-month";q=20000;w=%d,"all-month";q=25000;w=%[1]d,"all-hour";q=10;w=3600`, days.Month(at).Length()/time.Second)] = true
	}
	if got := response.Header.Get("RateLimit-Policy"); response.StatusCode != http.StatusOK || !wants[strings.ReplaceAll(got, ", ", ",")] {
		t.Errorf("got %d, RateLimit-Policy %s, want one of %v", response.StatusCode, got, wants)
	}
	var day, convert, all, hour int64
	format := `"convert";r=999;t=%d,"convert-month";r=19999;t=%d,"all-month";r=24999;t=%d,"all-hour";r=9;t=%d`
	got := strings.ReplaceAll(response.Header.Get("RateLimit"), ", ", ",")
	if _, err := fmt.Sscanf(got, format, &day, &convert, &all, &hour); err != nil || hour != 360 || convert != all || day > convert ||
		day > days.At(before).RetryAfter(before) || day < days.At(after).RetryAfter(after) && days.At(after).Day == days.At(before).Day {
		t.Errorf("got RateLimit %s (%v)", got, err)
	}

	_, text := s.Call("GET", "/api/usage", key.Token, nil)
	usage := decode[api.UsageDocument](t, text)
	at := strings.Index(text, `"endpoint":"convert"`)
	if at < 0 || len(usage.Limits) != 2 || usage.Limits[0].Period != "month" || *usage.Limits[0].Used != 1 || *usage.Limits[0].Remaining != 24999 ||
		usage.Limits[0].ResetsAt == nil || usage.Limits[1].Period != "hour" || usage.Limits[1].Limit != 10 || usage.Key == nil || len(usage.Key.Limits) != 0 {
		t.Errorf("got usage %s", text)
	}
	for _, want := range []string{`{"period":"hour","limit":10,"used":null,"remaining":null,"resets_at":null}`, `"limits":[{"period":"day","limit":1000,"used":1,"remaining":999,`, `"limit":1000,"used":1,"remaining":999,"limits":`} {
		if !strings.Contains(text, want) {
			t.Errorf("the usage lacks %s: %s", want, text)
		}
	}
}

// TestPaceOverReload: a pace is as empty after a reload as before, and full
// after a restart.
func TestPaceOverReload(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t, manyLimits...))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	refused := func(when string) {
		t.Helper()
		response, text := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil)
		refusal := decode[struct{ Code, Endpoint, Period, Of string }](t, text)
		retry := response.Header.Get("Retry-After")
		if response.StatusCode != http.StatusTooManyRequests || refusal.Code != "rate_limited" || refusal.Endpoint != "all" || refusal.Period != "hour" || refusal.Of != "account" ||
			strings.Contains(text, "resets_at") || len(retry) != 3 || retry > "360" {
			t.Errorf("%s: got %d, Retry-After %s, %s", when, response.StatusCode, retry, text)
		}
	}
	for range 10 {
		if response, text := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
			t.Fatalf("got %d %s", response.StatusCode, text)
		}
	}
	refused("at once")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	refused("after a reload")
	if got := used(t, s, account, "convert"); got != 10 {
		t.Errorf("counted %d, want 10", got)
	}
	s.StopCaddy()
	s.StartCaddy()
	if response, text := s.Call("GET", "/api/convert/USD/100/EUR", key.Token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("after a restart: got %d %s", response.StatusCode, text)
	}
}

// TestOverrides changes the limits of one account by the commands.
func TestOverrides(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t, manyLimits...))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	fields := func(when, want string) {
		t.Helper()
		response, text := s.Call("GET", "/api/convert/USD/1/EUR", key.Token, nil)
		got := strings.ReplaceAll(response.Header.Get("RateLimit-Policy"), ", ", ",")
		if response.StatusCode != http.StatusOK || !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %d, RateLimit-Policy %s, want %s; %s", when, response.StatusCode, got, want, text)
		}
	}
	until := time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly)
	s.Tollgate("limit", "set", account, "convert", "3000", "--until", until, "--reason", "a launch")
	fields("more a day", `"convert";q=3000;w=86400,"convert-month";q=20000;`)
	s.Tollgate("limit", "set", account, "convert", "unlimited", "--period", "month")
	fields("no limit of the month", `"convert";q=3000;w=86400,"all-month";q=25000;`)
	s.Tollgate("limit", "set", account, "all", "7", "--period", "day")
	list := decode[api.OverrideList](t, s.Tollgate("limit", "list", account, "--json"))
	if len(list.Limits) != 3 || *list.Limits[0].Limit != 3000 || list.Limits[0].Reason != "a launch" || list.Limits[1].Limit != nil || list.Limits[1].ExpiresAt != nil || list.Limits[2].Endpoint != "all" {
		t.Errorf("got the list %+v", list)
	}
	if ends := list.Limits[0].ExpiresAt; ends == nil || ends.Format(time.RFC3339) != time.Now().UTC().AddDate(0, 0, 3).Format(time.DateOnly)+"T00:00:00Z" {
		t.Errorf("the override until %s ends at %v", until, ends)
	}
	s.Tollgate("limit", "clear", account, "convert")
	s.Tollgate("limit", "clear", account, "convert", "--period", "month")
	fields("the limits of the plan again, and one more", `"convert";q=1000;w=86400,"convert-month";q=20000;`)
	s.Tollgate("limit", "set", account, "all", "3", "--period", "day")
	response, text := s.Call("GET", "/api/rates/EUR", key.Token, nil)
	refusal := decode[struct {
		Code, Endpoint, Period, Of string
		Limit                      int64
	}](t, text)
	if response.StatusCode != http.StatusTooManyRequests || refusal.Code != "quota_exceeded" || refusal.Endpoint != "all" || refusal.Period != "day" || refusal.Limit != 3 || refusal.Of != "account" {
		t.Errorf("got %d %s", response.StatusCode, text)
	}
	for _, wrong := range [][]string{
		{"limit", "set", account, "nothing", "3"},
		{"limit", "set", account, "convert", "-3"},
		{"limit", "set", account, "convert", "0", "--period", "second"},
		{"limit", "set", account, "convert", "3", "--period", "year"},
		{"limit", "set", account, "convert", "3", "--until", "2020-01-01"},
		{"limit", "clear", account, "rates"},
	} {
		if out, err := s.Try("caddy", "", append([]string{"tollgate"}, wrong...)...); err == nil {
			t.Errorf("%v: got no error and %s", wrong, out)
		}
	}
	if list := decode[api.OverrideList](t, s.Tollgate("limit", "list", account, "--json")); len(list.Limits) != 1 {
		t.Errorf("got the list %+v", list)
	}
}

// TestRestrictedKey makes a key with a limit and an address, and changes it
// without a new token.
func TestRestrictedKey(t *testing.T) {
	control := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
	s := stack.Start(t, stack.Shipped(t), "TOLLGATE_CONTROL="+control)
	account := newAccount(t, s, "ada@example.com", "starter")
	key := decode[issued](t, s.Tollgate("key", "create", account, "--name", "ci", "--limit", "convert 2 day", "--from", "203.0.113.0/24", "--from", "2001:db8::1", "--json"))
	call := func(when string, status int, want string) {
		t.Helper()
		response, text := s.Call("GET", "/api/convert/USD/1/EUR", key.Token, nil)
		refusal := decode[struct{ Code, Of string }](t, text)
		if response.StatusCode != status || refusal.Code != want || status == http.StatusTooManyRequests && refusal.Of != "key" {
			t.Errorf("%s: got %d %s, want %d %s", when, response.StatusCode, text, status, want)
		}
	}
	call("from another address", http.StatusForbidden, "address_not_allowed")
	if got := used(t, s, account, "convert"); got != 0 {
		t.Errorf("counted %d, want 0", got)
	}
	s.Tollgate("key", "set", account, key.ID, "--from", "127.0.0.0/8")
	call("from this address", http.StatusOK, "")
	call("the second call", http.StatusOK, "")
	call("over the limit of the key", http.StatusTooManyRequests, "quota_exceeded")
	patch := func(body string, status int) {
		t.Helper()
		url := fmt.Sprintf("http://%s/tollgate/accounts/%s/keys/%s", control, account, key.ID)
		request, err := http.NewRequestWithContext(t.Context(), "PATCH", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+stack.Secret)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("PATCH %s: got %d, want %d", body, response.StatusCode, status)
		}
	}
	patch(`{"limits":[{"endpoint":"convert","period":"day","limit":3}]}`, http.StatusOK)
	call("with a greater limit", http.StatusOK, "")
	call("over the greater limit", http.StatusTooManyRequests, "quota_exceeded")
	patch(`{"limits":[{"endpoint":"nothing","period":"day","limit":3}]}`, http.StatusBadRequest)
	patch(`{"limits":[{"endpoint":"convert","period":"second","limit":0}]}`, http.StatusBadRequest)
	patch(`{"addresses":["203.0.113.0/33"]}`, http.StatusBadRequest)
	call("after changes that were refused", http.StatusTooManyRequests, "quota_exceeded")
	key.Token = decode[issued](t, s.Tollgate("key", "rotate", account, key.ID, "--json")).Token
	call("after a rotation", http.StatusTooManyRequests, "quota_exceeded")
	other := newKey(t, s, account, "other")
	if response, text := s.Call("GET", "/api/convert/USD/1/EUR", other.Token, nil); response.StatusCode != http.StatusOK {
		t.Errorf("another key: got %d %s", response.StatusCode, text)
	}
	usage := decode[api.UsageDocument](t, s.Tollgate("usage", "show", account, "--json"))
	if got := used(t, s, account, "convert"); got != 4 || len(usage.Keys) != 1 || len(usage.Keys[0].Limits) != 1 || *usage.Keys[0].Limits[0].Used != 3 {
		t.Errorf("counted %d, keys %+v", got, usage.Keys)
	}
}

// TestKillWithFourLimits kills Caddy while clients call with a key that has a
// limit of its own. Account and key have counted the same calls: each one that
// was answered, and at most those in progress besides.
func TestKillWithFourLimits(t *testing.T) {
	stack.SkipInOneProcess(t, "it is about the store of the gate")
	s := stack.Start(t, stack.Shipped(t, "rates 1000\n", "rates 1000000\n\t\t\trates 2000000 month\n\t\t\t* 3000000 month\n"))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := decode[issued](t, s.Tollgate("key", "create", account, "--name", "ci", "--limit", "rates 1000000 day", "--json"))
	killUnderLoad(t, s, key.Token, func(answered, atMost int64) {
		text := s.Tollgate("usage", "show", account, "--json")
		usage := decode[api.UsageDocument](t, text)
		got := used(t, s, account, "rates")
		if got < answered || got > atMost || *usage.Limits[0].Used != got || len(usage.Keys) != 1 || *usage.Keys[0].Limits[0].Used != got {
			t.Fatalf("counted %d, want %d to %d in each limit: %s", got, answered, atMost, text)
		}
	})
}
