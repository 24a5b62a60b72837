package gate_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// override returns an override that ends after a time, or never for 0.
func override(limit store.Limit, lasts time.Duration) store.Override {
	o := store.Override{Limit: limit}
	if lasts > 0 {
		o.ExpiresAt = noon.Add(lasts)
	}
	return o
}

// noUpstream fails the test if a refused call reaches the upstream.
func noUpstream(t *testing.T) handlerFunc {
	return func(http.ResponseWriter, *http.Request) error {
		t.Error("the upstream was asked")
		return nil
	}
}

// TestShouldRetry: in each form of a refusal, X-Should-Retry says that a pace is
// worth a wait and that a quota is not. No other answer has the header.
func TestShouldRetry(t *testing.T) {
	t.Parallel()
	small := func(period string, limit policy.Limit) func(*policy.Config) {
		return func(c *policy.Config) {
			c.Plans[0] = policy.PlanConfig{Name: "small", Limits: map[string]*policy.Limit{"convert": nil}, MoreLimits: []policy.LimitConfig{{Endpoint: "convert", Period: period, Limit: limit}}}
			c.Endpoints[0].Cost = 2
		}
	}
	for name, c := range map[string]struct {
		change func(*policy.Config)
		retry  string // of the second call
		code   string
	}{
		"day":                {small("day", 3), "false", "quota_exceeded"},
		"a limit of 0":       {small("day", 0), "false", "quota_exceeded"},
		"month":              {small("month", 3), "false", "quota_exceeded"},
		"hour":               {small("hour", 3), "true", "rate_limited"},
		"minute":             {small("minute", 3), "true", "rate_limited"},
		"second":             {small("second", 3), "true", "rate_limited"},
		"cost above a limit": {small("day", 1), "", "cost_above_limit"},
	} {
		w := newWorld(t, c.change)
		bearer := "Authorization: Bearer " + w.account(t, "acc_1")
		first := w.send(t, "GET", convert, "", bearer)
		if got := first.Header()["X-Should-Retry"]; first.Code == http.StatusOK && got != nil {
			t.Errorf("%s: an admitted call: got %q", name, got)
		}
		w.next = noUpstream(t)
		for _, form := range []string{"", browser, "Content-Type: application/grpc"} {
			got := w.send(t, "GET", convert, "", bearer, form)
			if retry := strings.Join(got.Header()["X-Should-Retry"], "|"); retry != c.retry || form == "" && !strings.Contains(got.Body.String(), c.code) {
				t.Errorf("%s, %q: got %d %q %s, want %q", name, form, got.Code, retry, got.Body, c.retry)
			}
		}
		passErrors(w.gate, true)
		passed, err := w.ask("GET", convert, "", bearer)
		if retry := passed.Header().Get("X-Should-Retry"); err == nil || retry != c.retry {
			t.Errorf("%s, errors pass: got %q, %v", name, retry, err)
		}
	}
	w, _ := fronting(t, nil)
	w.next = wrong
	throttled := 0
	for range 25 {
		for _, got := range []*httptest.ResponseRecorder{
			w.send(t, "POST", "/api/login", person, "Content-Type: application/json"), w.get(t, convert, "a-wrong-guess-of-a-token"), w.get(t, "/api/nothing", ""),
		} {
			if got.Header()["X-Should-Retry"] != nil {
				t.Errorf("got %d %v", got.Code, got.Header())
			}
			if got.Code == http.StatusTooManyRequests {
				throttled++
			}
		}
	}
	if throttled != 20+5 { // logins and guesses
		t.Errorf("%d requests were throttled, want 25", throttled)
	}
}

// TestLongestWaitAnswers: of several limits that refuse a call, the one with the
// longest wait answers.
func TestLongestWaitAnswers(t *testing.T) {
	t.Parallel()
	const maximum = 3
	limit := func(endpoint, period string) policy.LimitConfig {
		return policy.LimitConfig{Endpoint: endpoint, Period: period, Limit: maximum}
	}
	own := func(period store.Period) store.Limit {
		return store.Limit{Endpoint: "convert", Period: period, Max: maximum}
	}
	lastDay := time.Date(2126, 11, 30, 23, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at    time.Time
		plan  []policy.LimitConfig
		key   []store.Limit
		retry string
		want  string // members
	}{
		"month": {noon, []policy.LimitConfig{limit("convert", "month")}, nil, "907200",
			`"message":"Monthly API limit exceeded: 3 calls a month to convert. It resets at 2126-12-01T00:00:00Z.","code":"quota_exceeded","endpoint":"convert","period":"month","limit":3,"of":"account","resets_at":"2126-12-01T00:00:00Z"`},
		"second": {noon, []policy.LimitConfig{limit("all", "second")}, nil, "1",
			`"message":"Too many calls: at most 3 calls a second to all endpoints together. Try again in 1 second.","code":"rate_limited","endpoint":"all","period":"second","limit":3,"of":"account"`},
		"day and month that end together": {lastDay, []policy.LimitConfig{limit("all", "day"), limit("all", "month")}, nil, "3600",
			`"message":"Monthly API limit exceeded: 3 calls a month to all endpoints together. It resets at 2126-12-01T00:00:00Z.","code":"quota_exceeded","endpoint":"all","period":"month","limit":3,"of":"account","resets_at":"2126-12-01T00:00:00Z"`},
		"longer period of the key": {lastDay, []policy.LimitConfig{limit("all", "day")}, []store.Limit{own(store.Month)}, "3600",
			`"message":"Monthly API limit of this key exceeded: 3 calls a month to convert. It resets at 2126-12-01T00:00:00Z.","code":"quota_exceeded","endpoint":"convert","period":"month","limit":3,"of":"key","resets_at":"2126-12-01T00:00:00Z"`},
		"pace of the key": {noon, nil, []store.Limit{own(store.Minute)}, "20",
			`"message":"Too many calls of this key: at most 3 calls a minute to convert. Try again in 20 seconds.","code":"rate_limited","endpoint":"convert","period":"minute","limit":3,"of":"key"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := limited(t, c.plan...)
			w.set(c.at)
			w.account(t, "acc_1")
			bearer := w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "own", Limits: c.key})
			for range maximum {
				if got := w.get(t, convert, bearer); got.Code != http.StatusOK {
					t.Fatalf("got %d %s", got.Code, got.Body)
				}
			}
			w.next = noUpstream(t)
			got := w.get(t, convert, bearer)
			if got.Code != http.StatusTooManyRequests || got.Body.String() != "{"+c.want+"}" || got.Header().Get("Retry-After") != c.retry {
				t.Errorf("got %d, Retry-After %s, %s\nwant %s, {%s}", got.Code, got.Header().Get("Retry-After"), got.Body, c.retry, c.want)
			}
			if n := w.used(t, "acc_1", "convert", c.at); n != maximum {
				t.Errorf("counted %d, want %d", n, maximum)
			}
		})
	}
}

// TestUsageOfLimits: the usage endpoint shows all limits, and those of the
// calling key.
func TestUsageOfLimits(t *testing.T) {
	t.Parallel()
	w := limited(t, policy.LimitConfig{Endpoint: "convert", Period: "month", Limit: 9}, policy.LimitConfig{Endpoint: "all", Period: "minute", Limit: 8})
	w.account(t, "acc_1")
	w.override(t, "acc_1", override(store.Limit{Endpoint: store.All, Period: store.Month, Max: 70}, 0))
	bearer := w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "own", Limits: []store.Limit{{Endpoint: "convert", Period: store.Day, Max: 3}}})
	w.get(t, convert, bearer)
	got := w.get(t, "/api/usage", bearer)
	for _, want := range []string{
		`"limits":[{"period":"day","limit":5,"used":1,"remaining":4,"resets_at":"2126-11-21T00:00:00Z","period_start":"2126-11-20"},{"period":"month","limit":9,"used":1,"remaining":8,"resets_at":"2126-12-01T00:00:00Z","period_start":"2126-11-01"}]`,
		`"limits":[{"period":"minute","limit":8,"used":null,"remaining":null,"resets_at":null},{"period":"month","limit":70,"used":1,"remaining":69,"resets_at":"2126-12-01T00:00:00Z","period_start":"2126-11-01"}]`,
		`"key":{"id":"key_2","name":"own","limits":[{"endpoint":"convert","period":"day","limit":3,"used":1,"remaining":2,"resets_at":"2126-11-21T00:00:00Z","period_start":"2126-11-20"}]}`,
	} {
		if got.Code != http.StatusOK || !strings.Contains(got.Body.String(), want) {
			t.Errorf("got %d %s, want %s in it", got.Code, got.Body, want)
		}
	}
}
