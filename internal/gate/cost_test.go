package gate_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const (
	batchPath = "/api/convert/batch"
	jsonType  = "Content-Type: application/json"
)

// pricedWorld has an endpoint whose calls cost 5, and one whose calls cost the
// elements of an array.
func pricedWorld(t testing.TB, limits map[string]*policy.Limit, more ...policy.LimitConfig) *world {
	t.Helper()
	return newWorld(t, func(c *policy.Config) {
		c.Endpoints[1].Cost = 5
		c.Logins = append(c.Logins, "POST /api/login/{way...}")
		c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "batch", Patterns: []string{"POST " + batchPath}, CostMember: "conversions", CostBody: 1 << 10},
			policy.EndpointConfig{Name: "names", Patterns: []string{"GET /api/names/{path...}"}, Ability: "convert"})
		c.Plans[0].Limits, c.Plans[0].MoreLimits = limits, more
	})
}

// items returns a body with that many conversions.
func items(n int) string {
	return `{"conversions":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}`
}

func number(n policy.Limit) *policy.Limit { return &n }

// TestCostOfABody: a call costs the elements of the array, at least 1, and the
// upstream gets the same bytes.
func TestCostOfABody(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(100)}, policy.LimitConfig{Endpoint: "batch", Period: "minute", Limit: 200})
	for name, c := range map[string]struct {
		body string
		cost int64
	}{
		"none":               {items(0), 1},
		"one":                {items(1), 1},
		"many":               {items(100), 100},
		"nested elements":    {`{"conversions":[[1,2,3],{"conversions":[1,2]},"x",null]}`, 4},
		"other members":      {` {"a":[1,2,3],"conversions":[1,2],"b":{"conversions":[1,2,3]}}` + "\n", 2},
		"name with escapes":  {`{"\u0063onversions":[1,2,3]}`, 3},
		"similar names":      {`{"conversion":[1],"conversions":[1,2],"conversions2":[1]}`, 2},
		"deepest":            {`{"conversions":[1,2],"x":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`, 2},
		"deepest in array":   {`{"conversions":[` + strings.Repeat("[", 62) + strings.Repeat("]", 62) + `]}`, 1},
		"similar below":      {`{"conversions":[{"a":1,"A":2}]}`, 1},
		"largest":            {items(2)[:len(items(2))-1] + `,"x":"` + strings.Repeat("y", 1<<10-len(items(2))-len(`,"x":""`)) + `"}`, 2},
		"surrogates, emojis": {`{"conversions":["\ud83d\ude00","😀"]}`, 2},
	} {
		for _, chunked := range []bool{false, true} {
			account := fmt.Sprint(strings.NewReplacer(" ", "-", ",", "").Replace(name), chunked)
			bearer := w.account(t, account)
			var got []byte
			w.next = func(rw http.ResponseWriter, r *http.Request) (err error) {
				got, err = io.ReadAll(r.Body)
				if r.ContentLength != int64(len(c.body)) || len(r.TransferEncoding)+len(r.Trailer) > 0 {
					t.Errorf("%s: the upstream gets Content-Length %d, %q, trailers %v", name, r.ContentLength, r.TransferEncoding, r.Trailer)
				}
				rw.WriteHeader(http.StatusOK)
				return err
			}
			r := marked(httptest.NewRequest("POST", batchPath, strings.NewReader(c.body)))
			r.Header = http.Header{"Authorization": {"Bearer " + bearer}, "Content-Type": {"application/json; charset=utf-8"}}
			if chunked {
				r.ContentLength, r.TransferEncoding, r.Trailer = -1, []string{"chunked"}, http.Header{"X-Late": nil}
			}
			answer := httptest.NewRecorder()
			if err := w.gate.Serve(answer, r, w.next); err != nil || answer.Code != http.StatusOK || string(got) != c.body {
				t.Errorf("%s: got %d %s (%v), the upstream got %q", name, answer.Code, answer.Body, err, got)
			}
			want := `"batch";q=100;w=86400, "batch-minute";q=200;w=60 "batch";r=` + strconv.FormatInt(100-c.cost, 10) + ";t=43200, "
			if n := w.used(t, account, "batch", noon); n != c.cost || !strings.HasPrefix(rateLimit(answer), want) {
				t.Errorf("%s: counted %d with %s, want %d and %s", name, n, rateLimit(answer), c.cost, want)
			}
		}
	}
}

// TestCostAboveLimit: a cost that a limit can never admit is refused without a
// wait. A limit of 0 refuses all calls with 429.
func TestCostAboveLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits map[string]*policy.Limit
		more   []policy.LimitConfig
		key    []store.Limit
		status int
		want   string
	}{
		"constant": {map[string]*policy.Limit{"rates": number(4)}, nil, nil, 403,
			`{"message":"The call costs 5 and can never be admitted: the limit is 4 calls a day to rates.","code":"cost_above_limit","endpoint":"rates","period":"day","limit":4,"of":"account","cost":5}`},
		"key": {map[string]*policy.Limit{"rates": number(5)}, nil, []store.Limit{{Endpoint: "rates", Period: store.Month, Max: 3}}, 403,
			`{"message":"The call costs 5 and can never be admitted: the limit of this key is 3 calls a month to rates.","code":"cost_above_limit","endpoint":"rates","period":"month","limit":3,"of":"key","cost":5}`},
		"limit of 0": {map[string]*policy.Limit{"rates": number(0)}, nil, nil, 429,
			`{"message":"Daily API limit exceeded: 0 calls a day to rates. It resets at 2126-11-21T00:00:00Z.","code":"quota_exceeded","endpoint":"rates","period":"day","limit":0,"of":"account","resets_at":"2126-11-21T00:00:00Z"}`},
	} {
		w := pricedWorld(t, c.limits, c.more...)
		w.account(t, "acc_1")
		bearer := w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "own", Limits: c.key})
		if c.status != http.StatusOK {
			w.next = noUpstream(t)
		}
		got := w.get(t, "/api/rates/EUR", bearer)
		if got.Code != c.status || got.Body.String() != c.want {
			t.Errorf("%s: got %d %s, want %d %s", name, got.Code, got.Body, c.status, c.want)
		}
		if c.status == http.StatusForbidden && got.Header().Get("Retry-After")+got.Header().Get("Ratelimit") != "" {
			t.Errorf("%s: got headers %v, want no wait", name, got.Header())
		}
		if n := w.used(t, "acc_1", "rates", noon); n != 0 && c.status != http.StatusOK {
			t.Errorf("%s: counted %d", name, n)
		}
	}
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(100)})
	bearer := w.account(t, "acc_1")
	w.next = noUpstream(t)
	got, err := w.ask("POST", batchPath, items(101), "Authorization: Bearer "+bearer, jsonType)
	if err != nil || got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), `"limit":100,"of":"account","cost":101}`) {
		t.Errorf("101 elements: got %d %s, %v", got.Code, got.Body, err)
	}
	if n := w.used(t, "acc_1", "batch", noon); n != 0 || w.outcomes["batch not_entitled"] != 1 {
		t.Errorf("counted %d, outcomes %v", n, w.outcomes)
	}
}

// TestBodyIsNotRead: the gate reads no body if a limit has no room for 1, and
// the refusal is that of any call.
func TestBodyIsNotRead(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]policy.LimitConfig{
		"day":  {Endpoint: "all", Limit: 2},
		"pace": {Endpoint: "batch", Period: "hour", Limit: 2},
	} {
		w := pricedWorld(t, map[string]*policy.Limit{"batch": nil}, more)
		bearer := w.account(t, "acc_1")
		if got, err := w.ask("POST", batchPath, items(2), "Authorization: Bearer "+bearer, jsonType); err != nil || got.Code != http.StatusOK {
			t.Fatalf("%s: got %d %s, %v", name, got.Code, got.Body, err)
		}
		w.next = noUpstream(t)
		r := marked(httptest.NewRequest("POST", batchPath, readerFunc(func([]byte) (int, error) {
			t.Errorf("%s: the body was read", name)
			return 0, io.EOF
		})))
		r.Header = http.Header{"Authorization": {"Bearer " + bearer}}
		got := httptest.NewRecorder()
		if err := w.gate.Serve(got, r, w.next); err != nil || got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") == "" || !strings.Contains(got.Header().Get("Ratelimit"), ";r=0;") {
			t.Errorf("%s: got %d %v %s, %v", name, got.Code, got.Header(), got.Body, err)
		}
		if n := w.used(t, "acc_1", "batch", noon); n != 2 {
			t.Errorf("%s: counted %d, want 2", name, n)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestBrokenCostBody: a body that ends early or is too slow is refused and
// counts nothing.
func TestBrokenCostBody(t *testing.T) {
	t.Parallel()
	w := pricedWorld(t, map[string]*policy.Limit{"batch": number(100)})
	bearer := w.account(t, "acc_1")
	w.next = noUpstream(t)
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"broken":                     {errors.New("connection reset"), 400, `"invalid_request"`},
		"ends early":                 {io.ErrUnexpectedEOF, 400, `"invalid_request"`},
		"too large for the operator": {&http.MaxBytesError{Limit: 10}, 413, `"body_too_large"`},
	} {
		r := marked(httptest.NewRequest("POST", batchPath, io.MultiReader(bytes.NewReader([]byte(`{"conv`)), iotest.ErrReader(c.err))))
		r.Header = http.Header{"Authorization": {"Bearer " + bearer}, "Content-Type": {"application/json"}}
		got := httptest.NewRecorder()
		if err := w.gate.Serve(got, r, w.next); err != nil || got.Code != c.status || !strings.Contains(got.Body.String(), c.code) {
			t.Errorf("%s: got %d %s, %v", name, got.Code, got.Body, err)
		}
	}
	if n := w.used(t, "acc_1", "batch", noon); n != 0 {
		t.Errorf("counted %d", n)
	}
}

// TestBoundOfScale: a bound has the scale of what the answer tells.
func TestBoundOfScale(t *testing.T) {
	t.Parallel()
	const body, bound = `{"max_tokens":7000}`, 19 + 16 + 2048 + 7000
	for scale, want := range map[string]int64{"": bound, "3": 3 * bound, "0.001": 10, "9999999999": 1_000_000_000_000} {
		w := newWorld(t, func(c *policy.Config) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "chat", Patterns: []string{"POST /api/chat"}, Ability: "convert", CostAnswer: &policy.CostAnswerConfig{
				Members: []string{"usage.total_tokens"}, Scale: json.Number(scale), Reserve: 4096, Bound: []string{"max_tokens"},
			}})
			c.Plans[0].Limits["chat"] = number(1_000_000_000_000)
		})
		w.next = func(http.ResponseWriter, *http.Request) error {
			if got := w.used(t, "acc_1", "chat", noon); got != want {
				t.Errorf("scale %q: reserves %d, want %d", scale, got, want)
			}
			return nil
		}
		if got, err := w.ask("POST", "/api/chat", body, "Authorization: Bearer "+w.account(t, "acc_1"), jsonType); err != nil || got.Code != http.StatusOK {
			t.Errorf("scale %q: got %d %s, %v", scale, got.Code, got.Body, err)
		}
	}
}
