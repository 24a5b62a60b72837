package gate_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/internal/feature/explain"
	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

// TestReserved: a call that only a call in progress keeps out is refused for
// seconds, in each form, also by explain, and over a reload. It makes no event.
// The settlement of the call in progress tells that the limit is used up.
func TestReserved(t *testing.T) {
	t.Parallel()
	var config policy.Config
	w, bearer := reserving(t, func(c *policy.Config) {
		c.Warn = []int{80}
		c.Plans[0].Limits["rates"] = number(5)
		config = *c
	})
	during := func(inProgress func()) handlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) error {
			w.next = noUpstream(t)
			inProgress()
			return telling(200, map[string]string{"Tollgate-Cost": "5"}, nil)(rw, r)
		}
	}
	explained := func() string {
		x, err := explain.Explain(t.Context(), w.gate.Options, explain.Question{Method: "GET", Target: rates, Account: &store.Account{ID: "acc_1", Plan: "small"}})
		if err != nil {
			t.Fatal(err)
		}
		if x.Code == nil {
			return ""
		}
		return *x.Code
	}
	if got := explained(); got != "" { // it leaves no reservation
		t.Errorf("explained %s before", got)
	}
	w.next = during(func() {
		for form, want := range map[string]string{
			"Accept: */*": `{"message":"Calls in progress have reserved what is left of the limit: 5 calls a day to rates. Try again in 2 seconds.","code":"quota_reserved",` +
				`"endpoint":"rates","period":"day","limit":5,"of":"account","resets_at":"2126-11-21T00:00:00Z"}`,
			"Accept: text/html":              "Too many calls in progress",
			"Content-Type: application/grpc": "",
		} {
			got, err := w.ask("GET", rates, "", "Authorization: Bearer "+bearer, form)
			grpc := strings.Contains(form, "grpc")
			if err != nil || got.Code != http.StatusTooManyRequests && !grpc || !strings.Contains(got.Body.String(), want) || grpc && got.Header().Get("Grpc-Status") != "8" ||
				got.Header().Get("Retry-After") != "2" || got.Header().Get("X-Should-Retry") != "true" || got.Header().Get("Ratelimit") != `"rates";r=1;t=43200` {
				t.Errorf("%s: got %d %v %s (%v)", form, got.Code, got.Header(), got.Body, err)
			}
			if strings.Contains(got.Body.String(), "midnight") {
				t.Errorf("the page says %s", got.Body)
			}
			w.configure(t, config)
		}
		if got := explained(); got != "quota_reserved" {
			t.Errorf("explained %s", got)
		}
		if len(w.reached) > 0 || w.outcomes["rates reserved"] != 3 {
			t.Errorf("reported %+v, outcomes %v", w.reached, w.outcomes)
		}
	})
	old := w.gate
	w.get(t, rates, bearer)
	old.Wait()
	var reached []string
	for _, q := range w.reached {
		reached = append(reached, fmt.Sprint(q.Used, " ", q.Threshold))
	}
	if want := []string{"5 80", "5 0"}; !slices.Equal(reached, want) {
		t.Errorf("the settlement reported %q, want %q", reached, want)
	}
	w.next = noUpstream(t)
	if got := w.get(t, rates, bearer); !strings.Contains(got.Body.String(), `"quota_exceeded"`) || got.Header().Get("Retry-After") != "43200" || explained() != "quota_exceeded" {
		t.Errorf("got %d %v %s", got.Code, got.Header(), got.Body)
	}
}

// TestReservedOf: which calls in progress can give room back to another call.
func TestReservedOf(t *testing.T) {
	t.Parallel()
	own := []store.Limit{{Endpoint: "rates", Period: store.Month, Max: 4}}
	for name, test := range map[string]struct {
		limits []policy.LimitConfig
		key    []store.Limit // of the key of the other call
		same   bool          // both calls have it
		target string
		code   string
	}{
		"a key's own limit":             {key: own, same: true, code: "quota_reserved"},
		"another key's own limit":       {key: own, code: ""},
		"all":                           {limits: []policy.LimitConfig{{Endpoint: "all", Limit: 4}}, target: convert, code: "quota_reserved"},
		"a pace is not given back":      {limits: []policy.LimitConfig{{Endpoint: "all", Period: "hour", Limit: 4}}, code: "rate_limited"},
		"another limit that is used up": {limits: []policy.LimitConfig{{Endpoint: "all", Limit: 4}, {Endpoint: "convert", Limit: 0, Period: "month"}}, target: convert, code: "quota_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, bearer := reserving(t, func(c *policy.Config) { c.Plans[0].MoreLimits = test.limits })
			other := w.key(t, store.Key{ID: "key_own", Account: "acc_1", Name: "own", Limits: test.key})
			if test.same {
				bearer = other
			}
			target := rates
			if test.target != "" {
				target = test.target
			}
			w.next = func(rw http.ResponseWriter, r *http.Request) error {
				w.next = telling(200, map[string]string{"Tollgate-Cost": "0"}, nil)
				got := w.get(t, target, other)
				code := ""
				for c := range strings.FieldsSeq(strings.NewReplacer(`"`, " ", `:`, " ").Replace(got.Body.String())) {
					if strings.HasPrefix(c, "quota_") || c == "rate_limited" {
						code = c
					}
				}
				if code != test.code || code == "" && got.Code != 200 {
					t.Errorf("got %d %s, want %q", got.Code, got.Body, test.code)
				}
				return telling(200, map[string]string{"Tollgate-Cost": "1"}, nil)(rw, r)
			}
			w.get(t, rates, bearer)
			w.gate.Wait()
		})
	}
}

// TestReservedTogether: calls that are decided at the same time are not taken for
// used. No event says that a limit is used up which never was.
func TestReservedTogether(t *testing.T) {
	t.Parallel()
	w, bearer := reserving(t, func(c *policy.Config) { c.Plans[0].Limits["rates"] = number(10) })
	w.next = telling(200, map[string]string{"Tollgate-Cost": "0"}, nil)
	var calls sync.WaitGroup
	for range 16 {
		calls.Go(func() {
			for range 50 {
				if got := w.get(t, rates, bearer); got.Code != 200 && !strings.Contains(got.Body.String(), `"quota_reserved"`) {
					t.Errorf("got %d %s", got.Code, got.Body)
				}
			}
		})
	}
	calls.Wait()
	w.gate.Wait()
	if len(w.reached) > 0 || w.used(t, "acc_1", "rates", noon) != 0 {
		t.Errorf("reported %+v", w.reached)
	}
	t.Logf("outcomes %v", w.outcomes)
}
