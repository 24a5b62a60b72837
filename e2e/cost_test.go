package e2e_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// costly makes a batch cost the number of its conversions.
var costly = []string{"ability convert\n", "ability convert\n\t\t\tcost json conversions\n"}

func conversions(n int) string {
	return `{"conversions":[` + strings.TrimSuffix(strings.Repeat(`{"from":"USD","to":"EUR","amount":1},`, n), ",") + `]}`
}

// TestBatchCost counts each conversion of a batch. A batch that a limit has no
// room for costs nothing.
func TestBatchCost(t *testing.T) {
	s := stack.Start(t, stack.Shipped(t, append(costly, "batch 50\n", "batch 200\n")...))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	for _, c := range []struct {
		items, status int
		code          string
		used          int64
	}{
		{100, http.StatusOK, "", 100},
		{101, http.StatusTooManyRequests, "quota_exceeded", 100},
		{201, http.StatusForbidden, "cost_above_limit", 100},
		{0, http.StatusBadRequest, "", 101}, // the service refuses it
		{99, http.StatusOK, "", 200},
		{1, http.StatusTooManyRequests, "quota_exceeded", 200},
	} {
		response, text := s.Call("POST", "/api/convert/batch", key.Token, strings.NewReader(conversions(c.items)))
		if response.StatusCode != c.status || c.code != "" && code(t, text) != c.code {
			t.Errorf("%d conversions: got %d %.300s, want %d %s", c.items, response.StatusCode, text, c.status, c.code)
		}
		want := fmt.Sprintf(`"batch";r=%d;t=`, 200-c.used)
		if got := response.Header.Get("RateLimit"); c.code != "cost_above_limit" && !strings.HasPrefix(got, want) {
			t.Errorf("%d conversions: got RateLimit %q, want %s", c.items, got, want)
		}
		if got := used(t, s, account, "batch"); got != c.used {
			t.Errorf("after %d conversions: counted %d, want %d", c.items, got, c.used)
		}
	}
}

// TestRefundedCost refunds the whole cost of a batch that no service answers.
func TestRefundedCost(t *testing.T) {
	stack.SkipInOneProcess(t, "it stops the upstream")
	s := stack.Start(t, stack.Shipped(t, costly...))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	s.StopUpstream()
	for range 3 {
		response, text := s.Call("POST", "/api/convert/batch", key.Token, strings.NewReader(conversions(40)))
		if response.StatusCode != http.StatusBadGateway || !strings.HasPrefix(response.Header.Get("RateLimit"), `"batch";r=50;`) {
			t.Errorf("got %d, RateLimit %s, %s", response.StatusCode, response.Header.Get("RateLimit"), text)
		}
	}
	if got := used(t, s, account, "batch"); got != 0 {
		t.Errorf("counted %d, want 0", got)
	}
}

// echo is a service that answers with the body of the request.
type echo struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	e := &echo{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		e.mu.Lock()
		e.bodies = append(e.bodies, string(body))
		e.mu.Unlock()
		_, _ = w.Write(body) // a client that is gone needs no answer
	}))
	t.Cleanup(e.Close)
	return e
}

// seen returns the bodies that came since the last call.
func (e *echo) seen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	bodies := e.bodies
	e.bodies = nil
	return bodies
}

// behind returns the shipped Caddyfile with another service, batches that cost
// their conversions, and further changes.
func behind(t *testing.T, e *echo, oldnew ...string) string {
	t.Helper()
	stack.SkipInOneProcess(t, "another service is behind the gate")
	oldnew = append(oldnew, "reverse_proxy {$TOLLGATE_UPSTREAM:127.0.0.1:9000}", "reverse_proxy "+e.Listener.Addr().String())
	return stack.Shipped(t, append(oldnew, costly...)...)
}

// post makes a call to batch. A body that is not a strings.Reader is sent in
// chunks.
func post(t *testing.T, s *stack.Stack, token string, body io.Reader, header http.Header) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "POST", s.Address+"/api/convert/batch", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header.Clone()
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

var asJSON = http.Header{"Content-Type": {"application/json"}}

// TestCostBodyIsUnchanged: the service receives the bytes that the gate read.
func TestCostBodyIsUnchanged(t *testing.T) {
	e := newEcho(t)
	s := stack.Start(t, behind(t, e, "batch 50\n", "batch 1000000\n"))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	long := conversions(1)
	long = strings.Repeat(" ", 64<<10-len(long)) + long
	sum := int64(0)
	for _, c := range []struct {
		body string
		cost int64
	}{
		{conversions(100), 100},
		{conversions(1000), 1000},
		{" \t\r\n{ \"conversions\" : [ 1 , {\"a\":[1,2,3]} , [4,5] ] , \"b\" : 1.50e+3 } \n", 3},
		{`{"conver\u0073ions":[null,false,"\u20ac\ud83d\ude00"],"é":"\/"}`, 3},
		{`{"other":{"conversions":[1,2,3]},"conversions":[]}`, 1},
		{long, 1},
	} {
		for _, body := range []io.Reader{strings.NewReader(c.body), io.MultiReader(strings.NewReader(c.body))} {
			got := post(t, s, key.Token, body, asJSON)
			sum += c.cost
			if seen := e.seen(); got.StatusCode != http.StatusOK || got.text != c.body || len(seen) != 1 || seen[0] != c.body {
				t.Errorf("%.60q: got %d %.200q, the service saw %.200q", c.body, got.StatusCode, got.text, seen)
			}
			if n := used(t, s, account, "batch"); n != sum {
				t.Fatalf("%.60q: counted %d, want %d", c.body, n, sum)
			}
		}
	}
}

// TestAmbiguousBodies: a body whose cost parsers could read differently is
// refused. The service does not see it, and it costs nothing.
func TestAmbiguousBodies(t *testing.T) {
	e := newEcho(t)
	s := stack.Start(t, behind(t, e))
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zip, conversions(1)) // a buffer has no errors
	_ = zip.Close()
	with := func(nameValue ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(nameValue); i += 2 {
			h.Add(nameValue[i], nameValue[i+1])
		}
		return h
	}
	for _, c := range []struct {
		name, body string
		header     http.Header
		status     int
	}{
		{"no body", "", asJSON, 400},
		{"duplicate member", `{"conversions":[1],"conversions":[1,2]}`, asJSON, 400},
		{"duplicate member with an escape", `{"conver\u0073ions":[1],"conversions":[1,2]}`, asJSON, 400},
		{"upper case beside it", `{"Conversions":[1,2],"conversions":[1]}`, asJSON, 400},
		{"upper case after it", `{"conversions":[1],"CONVERSIONS":[1,2]}`, asJSON, 400},
		{"long s beside it", `{"converſions":[1,2],"conversions":[1]}`, asJSON, 400},
		{"long s after it, escaped", `{"conversions":[1],"conver\u017fions":[1,2]}`, asJSON, 400},
		{"only upper case", `{"Conversions":[1]}`, asJSON, 400},
		{"only long s", `{"converſions":[1]}`, asJSON, 400},
		{"other members that differ in case", `{"a":1,"A":2,"conversions":[1]}`, asJSON, 400},
		{"i without a dot", `{"conver\u0073\u0131ons":[1,2],"conversions":[1]}`, asJSON, 400},
		{"dash in the name", `{"con-versions":[1,2],"conversions":[1]}`, asJSON, 400},
		{"NUL in a name", `{"conversions\u0000x":[1,2],"conversions":[1]}`, asJSON, 400},
		{"member missing", `{"other":[1]}`, asJSON, 400},
		{"member further down", `{"other":{"conversions":[1]}}`, asJSON, 400},
		{"null", `{"conversions":null}`, asJSON, 400},
		{"object", `{"conversions":{"length":1}}`, asJSON, 400},
		{"text", `{"conversions":"[1]"}`, asJSON, 400},
		{"outermost array", `[{"conversions":[1]}]`, asJSON, 400},
		{"invalid UTF-8 in a text", "{\"conversions\":[\"\xff\"]}", asJSON, 400},
		{"invalid UTF-8 in a name", "{\"conversions\":[1],\"conversions\xff\":[1,2]}", asJSON, 400},
		{"half a surrogate pair in a name", `{"conversions":[1],"conversions\ud800":[1,2]}`, asJSON, 400},
		{"byte order mark", "\ufeff" + conversions(1), asJSON, 400},
		{"UTF-16", "\xff\xfe{\x00}\x00", asJSON, 400},
		{"second value", conversions(1) + conversions(2), asJSON, 400},
		{"second value in a line of its own", conversions(1) + "\n[1,2,3]", asJSON, 400},
		{"text behind it", conversions(1) + "x", asJSON, 400},
		{"NUL behind it", conversions(1) + "\x00", asJSON, 400},
		{"end missing", `{"conversions":[1]`, asJSON, 400},
		{"comma at the end", `{"conversions":[1,2,]}`, asJSON, 400},
		{"comment", `{"conversions":[1/*,2*/]}`, asJSON, 400},
		{"no JSON number", `{"conversions":[NaN]}`, asJSON, 400},
		{"deep nesting", `{"conversions":[` + strings.Repeat("[", 15000) + strings.Repeat("]", 15000) + `]}`, asJSON, 400},
		{"deep nesting beside it", `{"a":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + `,"conversions":[1]}`, asJSON, 400},
		{"a byte too long", strings.Repeat(" ", 64<<10+1-len(conversions(1))) + conversions(1), asJSON, 413},
		{"much too long", conversions(40_000), asJSON, 413},
		{"gzip", zipped.String(), with("Content-Type", "application/json", "Content-Encoding", "gzip"), 415},
		{"an encoding that changes nothing", conversions(1), with("Content-Type", "application/json", "Content-Encoding", "br"), 415},
		{"two types", conversions(1), with("Content-Type", "application/json", "Content-Type", "text/plain"), 415},
		{"other charset", conversions(1), with("Content-Type", "application/json; charset=utf-16"), 415},
		{"text", conversions(1), with("Content-Type", "text/plain"), 415},
		{"form", conversions(1), with("Content-Type", "application/x-www-form-urlencoded"), 415},
		{"no type", conversions(1), http.Header{}, 415},
	} {
		for _, body := range []io.Reader{strings.NewReader(c.body), io.MultiReader(strings.NewReader(c.body))} {
			got := post(t, s, key.Token, body, c.header)
			if got.StatusCode != c.status || code(t, got.text) == "" {
				t.Errorf("%s: got %d %.200s, want %d", c.name, got.StatusCode, got.text, c.status)
			}
			if c.status == http.StatusBadRequest && code(t, got.text) != "invalid_request" {
				t.Errorf("%s: got %s", c.name, got.text)
			}
			if got.Header.Get("Connection") == "close" && c.status != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: the connection is closed", c.name)
			}
			if seen := e.seen(); len(seen) > 0 {
				t.Errorf("%s: the service saw %.200q", c.name, seen)
			}
		}
	}
	if n := used(t, s, account, "batch"); n != 0 {
		t.Errorf("counted %d, want 0", n)
	}
}
