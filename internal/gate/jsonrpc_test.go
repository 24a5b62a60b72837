package gate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-tollgate/tollgate/internal/policy"
	"github.com/caddy-tollgate/tollgate/internal/store"
)

const mcpPath = "/api/mcp"

// rpcWorld has one path with a tool, all other tools, a method, and an endpoint for
// the rest unless others is false. The service has to get the body unchanged.
func rpcWorld(t testing.TB, others bool, change func(*policy.Config)) *world {
	t.Helper()
	return newWorld(t, func(c *policy.Config) {
		add := func(name string, rpc *policy.JSONRPC, cost int64) {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: name, Patterns: []string{"POST " + mcpPath}, Ability: "convert", JSONRPC: rpc, Cost: cost})
			c.Plans[0].Limits[name] = number(1000)
		}
		add("tools", &policy.JSONRPC{Method: "tools/call"}, 1)
		add("search", &policy.JSONRPC{Method: "tools/call", Tool: "search"}, 5)
		add("list", &policy.JSONRPC{Method: "tools/list"}, 1)
		if others {
			c.Endpoints = append(c.Endpoints, policy.EndpointConfig{Name: "mcp", Patterns: []string{"POST " + mcpPath, "GET " + mcpPath}, Ability: "convert"})
			c.Plans[0].Limits["mcp"] = number(1000)
		}
		if change != nil {
			change(c)
		}
	})
}

// rpcCounts returns what is counted of the endpoints of rpcWorld, such as "search 5".
func rpcCounts(t testing.TB, w *world) string {
	var counts []string
	for _, name := range []string{"tools", "search", "list", "mcp"} {
		if n := w.used(t, "acc_1", name, noon); n > 0 {
			counts = append(counts, fmt.Sprint(name, " ", n))
		}
	}
	return strings.Join(counts, ", ")
}

func tool(name string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":{"name":"x","Name":1,"a":[1]}}}`
}

// TestOperations: the method and the tool in the body choose the endpoint, the
// most specific one first, and nothing else does.
func TestOperations(t *testing.T) {
	t.Parallel()
	const list, ping, answer = `{"method":"tools/list","id":"a"}`, `{"jsonrpc":"2.0","method":"ping","params":{"Name":1,"name":""}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, c := range map[string]struct{ body, want string }{
		"tool":                    {tool("search"), "search 5"},
		"another tool":            {tool("fetch"), "tools 1"},
		"method":                  {list, "list 1"},
		"another method":          {ping, "mcp 1"},
		"response":                {answer, "mcp 1"},
		"error of the client":     {`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`, "mcp 1"},
		"notification":            {`{"method":"notifications/initialized"}`, "mcp 1"},
		"escapes":                 {`{"\u006dethod":"\u0074ools/call","par\u0061ms":{"n\u0061me":"se\u0061rch"}}`, "search 5"},
		"params first":            {`{"params":{"arguments":{},"name":"search"},"method":"tools/call"}`, "search 5"},
		"params of another":       {`{"method":"tools/list","params":{"name":"search","Name":1}}`, "list 1"},
		"params as array":         {`{"method":"tools/list","params":["tools/call","search"]}`, "list 1"},
		"method below":            {`{"method":"tools/list","x":{"method":"tools/call","params":{"name":"search"}}}`, "list 1"},
		"longer name":             {tool("search2"), "tools 1"},
		"batch":                   {"[" + tool("search") + "," + tool("search") + ", " + tool("search") + "]", "search 15"},
		"batch of one":            {"[" + list + "]", "list 1"},
		"batch of notifications":  {`[{"method":"a"},{"method":"b"},` + answer + `]`, "mcp 3"},
		"batch of other tools":    {"[" + tool("a") + "," + tool("b") + "]", "tools 2"},
		"id is null":              {`{"id":null,"method":"tools/list"}`, "list 1"},
		"id is an object":         {`{"id":{"a":1},"method":"tools/list"}`, "list 1"},
		"space around, long body": {" \n" + list + strings.Repeat(" ", policy.MaxRPCBody-2-len(list)), "list 1"},
	} {
		w := rpcWorld(t, true, nil)
		bearer := w.account(t, "acc_1")
		var got []byte
		w.next = func(rw http.ResponseWriter, r *http.Request) (err error) {
			got, err = io.ReadAll(r.Body)
			if r.Header.Get("Mcp-Session-Id") != "s" || r.Header.Get("Mcp-Method") != "tools/list" {
				t.Errorf("%s: the upstream gets %v", name, r.Header)
			}
			rw.WriteHeader(http.StatusOK)
			return err
		}
		answer, err := w.ask("POST", mcpPath, c.body, "Authorization: Bearer "+bearer, jsonType, "Mcp-Session-Id: s", "Mcp-Method: tools/list", "Mcp-Name: x")
		if counts := rpcCounts(t, w); err != nil || answer.Code != http.StatusOK || string(got) != c.body || counts != c.want {
			t.Errorf("%s: got %d %s (%v), counted %q, want %q", name, answer.Code, answer.Body, err, counts, c.want)
		}
		endpoint, _, _ := strings.Cut(c.want, " ")
		if shown, _ := w.last.Lookup("http.tollgate.endpoint"); shown != endpoint {
			t.Errorf("%s: the placeholder is %v", name, shown)
		}
		if w.outcomes[endpoint+" admitted"] != 1 {
			t.Errorf("%s: outcomes %v", name, w.outcomes)
		}
	}
}

// TestOperationsThatAreUnknown: without an endpoint for the rest, other requests get
// 404 in the form of JSON-RPC. A name that differs from that of an endpoint in case
// or spaces only always does.
func TestOperationsThatAreUnknown(t *testing.T) {
	t.Parallel()
	for _, others := range []bool{false, true} {
		w := rpcWorld(t, others, nil)
		bearer := "Authorization: Bearer " + w.account(t, "acc_1")
		w.next = noUpstream(t)
		for body, id := range map[string]string{
			`{"id":7,"method":"ping"}`:                    "7",
			`{"id":"a\"b\u0041<","method":"ping"}`:        `"a\"b\u0041<"`,
			`{"id":-1.5e3,"method":"ping"}`:               "-1.5e3",
			`{"method":"ping"}`:                           "null",
			`{"id":[1],"method":"ping"}`:                  "null",
			`{"id":1,"result":2}`:                         "1",
			`[{"id":1,"method":"a"}]`:                     "null",
			`{"id":1,"method":"Tools/List"}`:              "1",
			`{"id":1,"method":" tools/list\t"}`:           "1",
			strings.Replace(tool("x"), "call", "CALL", 1): "1",
			tool("Search"):                                "1",
			tool("search "):                               "1",
			tool(`\u017fearch`):                           "1", // long s
		} {
			if others && (strings.Contains(body, `"ping"`) || strings.Contains(body, `"a"}`) || strings.Contains(body, "result")) {
				continue
			}
			got, err := w.ask("POST", mcpPath, body, bearer, jsonType)
			var answer struct {
				Code, Message, JSONRPC string
				ID                     json.RawMessage
				Error                  struct {
					Code    int
					Message string
				}
			}
			if err != nil || got.Code != http.StatusNotFound || json.Unmarshal(got.Body.Bytes(), &answer) != nil || answer.Code != "not_found" ||
				answer.JSONRPC != "2.0" || string(answer.ID) != id || answer.Error.Code != -32601 || answer.Error.Message == "" {
				t.Errorf("%s: got %d %s, %v", body, got.Code, got.Body, err)
			}
		}
		if counts := rpcCounts(t, w); counts != "" {
			t.Errorf("counted %s", counts)
		}
	}
}

// TestRPCBodiesThatParsersReadDifferently: a client sends a body in which the gate
// reads a cheap method and the service finds another one. It reaches no service and
// counts nothing, and passes untouched in mode shadow.
func TestRPCBodiesThatParsersReadDifferently(t *testing.T) {
	t.Parallel()
	w := rpcWorld(t, true, nil)
	bearer := "Authorization: Bearer " + w.account(t, "acc_1")
	shadow := rpcWorld(t, true, func(c *policy.Config) { c.Mode = policy.Shadow })
	shadowBearer := "Authorization: Bearer " + shadow.account(t, "acc_1")
	w.next = noUpstream(t)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, body := range map[string]string{
		"duplicate method":        `{"method":"ping","method":"tools/list"}`,
		"duplicate with escape":   `{"method":"ping","m\u0065thod":"tools/list"}`,
		"another case":            `{"method":"ping","Method":"tools/list"}`,
		"another case only":       `{"Method":"tools/list"}`,
		"ignored dash":            `{"method":"ping","meth-od":"tools/list"}`,
		"NUL in a name":           `{"method":"ping","method\u0000":"tools/list"}`,
		"NUL in the method":       `{"method":"tools/list\u0000x"}`,
		"NUL in the tool":         tool(`search\u0000x`),
		"duplicate params":        `{"method":"tools/call","params":{"name":"a"},"params":{"name":"search"}}`,
		"params in another case":  `{"method":"tools/call","params":{"name":"a"},"PARAMS":{"name":"search"}}`,
		"duplicate tool":          `{"method":"tools/call","params":{"name":"a","name":"search"}}`,
		"tool in another case":    `{"method":"tools/call","params":{"name":"a","Name":"search"}}`,
		"tool as an array":        `{"method":"tools/call","params":{"name":["search"]}}`,
		"tool missing":            `{"method":"tools/call","params":{"nam":"search"}}`,
		"tool empty":              tool(""),
		"params as array":         `{"method":"tools/call","params":["search"]}`,
		"params missing":          `{"method":"tools/call"}`,
		"method is a number":      `{"method":1}`,
		"method is null":          `{"method":null}`,
		"method is empty":         `{"method":""}`,
		"method is an array":      `{"method":["tools/list"]}`,
		"method is missing":       `{"id":1}`,
		"method and result":       `{"method":"tools/list","result":1}`,
		"method and error":        `{"method":"tools/list","error":null}`,
		"duplicate at depth":      `{"method":"ping","params":{"a":[{"b":1,"b":2}]}}`,
		"byte order mark":         "\ufeff" + `{"method":"ping"}`,
		"NUL at the end":          `{"method":"ping"}` + "\x00",
		"NUL at the start":        "\x00" + `{"method":"ping"}`,
		"second value":            `{"method":"ping"}{"method":"tools/list"}`,
		"second line":             `{"method":"ping"}` + "\n" + `[]`,
		"invalid UTF-8":           "{\"method\":\"ping\xff\"}",
		"half a surrogate pair":   `{"method":"ping\ud800"}`,
		"UTF-16":                  "{\x00\"\x00}\x00",
		"single quotes":           `{'method':'ping'}`,
		"comment":                 `{"method":"ping"/*,"method":"tools/list"*/}`,
		"comma at the end":        `{"method":"ping",}`,
		"deep nesting":            `{"method":"ping","x":` + deep(64) + `}`,
		"deep nesting in params":  `{"method":"ping","params":{"x":` + deep(63) + `}}`,
		"very deep nesting":       `{"method":"ping","params":` + deep(200_000) + `}`,
		"deep nesting of batches": deep(200_000),
		"empty batch":             `[]`,
		"nested batch":            `[[{"method":"ping"}]]`,
		"batch with a number":     `[{"method":"ping"},1]`,
		"batch with a fault":      `[{"method":"ping"},{"method":"ping","Method":"tools/list"}]`,
		"batch not closed":        `[{"method":"ping"}`,
		"mixed batch":             `[{"method":"ping"},{"method":"tools/list"}]`,
		"mixed batch of tools":    "[" + tool("a") + "," + tool("search") + "]",
		"mixed batch, unknown":    "[" + tool("search") + "," + tool("Search") + "]",
		"empty":                   ``,
		"text":                    `"tools/list"`,
		"null":                    `null`,
	} {
		got, err := w.ask("POST", mcpPath, body, bearer, jsonType)
		if err != nil || got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), `"code":"invalid_request"`) || !json.Valid(got.Body.Bytes()) {
			t.Errorf("%s: got %d %s, %v", name, got.Code, got.Body, err)
		}
		if mixed := strings.Contains(got.Body.String(), "same endpoint"); mixed != strings.HasPrefix(name, "mixed") {
			t.Errorf("%s: got the message %s", name, got.Body)
		}
		var passed []byte
		shadow.next = func(rw http.ResponseWriter, r *http.Request) (err error) {
			passed, err = io.ReadAll(r.Body)
			rw.WriteHeader(http.StatusOK)
			return err
		}
		if got, err = shadow.ask("POST", mcpPath, body, shadowBearer, jsonType); err != nil || got.Code != http.StatusOK || string(passed) != body {
			t.Errorf("%s in shadow: got %d %s, %v, passed %q", name, got.Code, got.Body, err, passed)
		}
	}
	if counts := rpcCounts(t, w) + rpcCounts(t, shadow); counts != "" {
		t.Errorf("counted %s", counts)
	}
}

// TestRPCBodiesThatAreNotPlainJSON: a body that is encoded, of another type or too
// long is refused; in mode shadow it passes untouched.
func TestRPCBodiesThatAreNotPlainJSON(t *testing.T) {
	t.Parallel()
	const body = `{"method":"tools/list"}`
	for name, c := range map[string]struct {
		header []string
		body   string
		status int
	}{
		"no type":         {nil, body, 415},
		"text":            {[]string{"Content-Type: text/plain"}, body, 415},
		"two types":       {[]string{jsonType, jsonType}, body, 415},
		"UTF-16":          {[]string{jsonType + "; charset=utf-16"}, body, 415},
		"gzip":            {[]string{jsonType, "Content-Encoding: gzip"}, body, 415},
		"a byte too long": {[]string{jsonType}, body + strings.Repeat(" ", policy.MaxRPCBody+1-len(body)), 413},
	} {
		for _, mode := range []policy.Mode{policy.Enforce, policy.Shadow} {
			w := rpcWorld(t, true, func(c *policy.Config) { c.Mode = mode })
			bearer := "Authorization: Bearer " + w.account(t, "acc_1")
			var passed []byte
			w.next = func(rw http.ResponseWriter, r *http.Request) (err error) {
				passed, err = io.ReadAll(r.Body)
				rw.WriteHeader(http.StatusOK)
				return err
			}
			for _, chunked := range []bool{false, true} {
				passed = nil
				r := marked(httptest.NewRequest("POST", mcpPath, strings.NewReader(c.body)))
				for _, line := range append(c.header, bearer) {
					name, value, _ := strings.Cut(line, ": ")
					r.Header.Add(name, value)
				}
				if chunked {
					r.ContentLength, r.TransferEncoding = -1, []string{"chunked"}
				}
				got := httptest.NewRecorder()
				want, service := c.status, ""
				if mode == policy.Shadow {
					want, service = http.StatusOK, c.body
				}
				if err := w.gate.Serve(got, r, w.next); err != nil || got.Code != want || string(passed) != service {
					t.Errorf("%s, %s: got %d %s, %v, want %d", name, mode, got.Code, got.Body, err, want)
				}
			}
			if counts := rpcCounts(t, w); counts != "" {
				t.Errorf("%s: counted %s", name, counts)
			}
		}
	}
}

// TestRPCBodyOfStranger: the gate reads no body without a valid token.
func TestRPCBodyOfStranger(t *testing.T) {
	t.Parallel()
	w := rpcWorld(t, true, nil)
	w.next = noUpstream(t)
	for _, line := range []string{"", "Bearer " + newToken(t).Reveal()} {
		r := marked(httptest.NewRequest("POST", mcpPath, readerFunc(func([]byte) (int, error) {
			t.Error("the body was read")
			return 0, io.EOF
		})))
		r.Header = http.Header{"Authorization": {line}, "Content-Type": {"application/json"}}
		got := httptest.NewRecorder()
		if err := w.gate.Serve(got, r, w.next); err != nil || got.Code != http.StatusUnauthorized {
			t.Errorf("got %d %s, %v", got.Code, got.Body, err)
		}
	}
}

// TestSlowRPCBody: the token and the plan are checked again after the body, and the
// call counts when the body has arrived.
func TestSlowRPCBody(t *testing.T) {
	t.Parallel()
	w := rpcWorld(t, true, nil)
	bearer := w.account(t, "acc_1")
	send := func(meanwhile func()) *httptest.ResponseRecorder {
		r := marked(httptest.NewRequest("POST", mcpPath, io.MultiReader(
			readerFunc(func([]byte) (int, error) { meanwhile(); return 0, io.EOF }), strings.NewReader(tool("search")),
		)))
		r.Header = http.Header{"Authorization": {"Bearer " + bearer}, "Content-Type": {"application/json"}}
		got := httptest.NewRecorder()
		if err := w.gate.Serve(got, r, w.next); err != nil {
			t.Error(err)
		}
		return got
	}
	midnight := noon.Add(12 * time.Hour)
	w.set(midnight.Add(-time.Second))
	got := send(func() { w.set(midnight.Add(time.Second)) })
	if before, after := w.used(t, "acc_1", "search", noon), w.used(t, "acc_1", "search", midnight); got.Code != http.StatusOK || before != 0 || after != 5 {
		t.Errorf("got %d, counted %d and %d, want 0 and 5", got.Code, before, after)
	}
	w.next = noUpstream(t)
	got = send(func() {
		if err := w.db.RevokeKey(t.Context(), "acc_1", "key_acc_1", w.clock()); err != nil {
			t.Error(err)
		}
	})
	if got.Code != http.StatusUnauthorized || w.used(t, "acc_1", "search", midnight) != 5 {
		t.Errorf("revoked: got %d %s", got.Code, got.Body)
	}
}

// TestBatchIsAllOrNothing: each request of a batch counts, in limits of calls too.
// A batch for which a limit has no room counts nothing.
func TestBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	batch := func(n int) string {
		return "[" + strings.Repeat(`{"method":"tools/list"},`, n-1) + `{"method":"tools/list"}]`
	}
	for name, more := range map[string]policy.LimitConfig{
		"day":           {Endpoint: "all", Limit: 10},
		"calls":         {Endpoint: "list", Period: "week", Calls: true, Limit: 10},
		"pace":          {Endpoint: "list", Period: "hour", Limit: 10},
		"pace of calls": {Endpoint: "list", Period: "hour", Calls: true, Limit: 10},
		"total":         {Endpoint: "list", Period: "total", Calls: true, Limit: 10},
	} {
		w := rpcWorld(t, true, func(c *policy.Config) {
			c.Endpoints[4].Cost = 3
			c.Plans[0].MoreLimits = []policy.LimitConfig{more}
			if !more.Calls {
				c.Endpoints[4].Cost = 1
			}
		})
		bearer := "Authorization: Bearer " + w.account(t, "acc_1")
		var statuses []int
		fails := false
		w.next = func(rw http.ResponseWriter, _ *http.Request) error {
			if fails {
				return failure(http.StatusBadGateway)
			}
			rw.WriteHeader(http.StatusOK)
			return nil
		}
		for i, n := range []int{4, 6, 7, 6, 1} {
			fails = i == 1 && name != "pace" && name != "pace of calls" // given back
			got, err := w.ask("POST", mcpPath, batch(n), bearer, jsonType)
			if err != nil {
				t.Fatal(name, err)
			}
			statuses = append(statuses, got.Code)
		}
		want := []int{200, 502, 429, 200, 429}
		if strings.HasPrefix(name, "pace") {
			want = []int{200, 200, 429, 429, 429}
		}
		if cost := w.gate.Policy.Endpoint("list").Cost; !slices.Equal(statuses, want) || w.used(t, "acc_1", "list", noon) != 10*cost {
			t.Errorf("%s: got %v, want %v, counted %d", name, statuses, want, w.used(t, "acc_1", "list", noon))
		}
	}
	for _, change := range []func(*policy.Config){
		func(c *policy.Config) { c.Plans[0].Limits["list"] = number(10) },
		func(c *policy.Config) {
			c.Plans[0].Concurrent = []policy.ConcurrentConfig{{Endpoint: "list", Limit: 10}}
		},
	} {
		w := rpcWorld(t, true, change)
		w.next = noUpstream(t)
		got, err := w.ask("POST", mcpPath, batch(11), "Authorization: Bearer "+w.account(t, "acc_1"), jsonType)
		if err != nil || got.Code != http.StatusForbidden || !strings.Contains(got.Body.String(), `"cost":11`) {
			t.Errorf("above the limit: got %d %s, %v", got.Code, got.Body, err)
		}
	}
	w := rpcWorld(t, true, func(c *policy.Config) {
		c.Plans[0].Concurrent = []policy.ConcurrentConfig{{Endpoint: "list", Limit: 10}}
	})
	bearer := "Authorization: Bearer " + w.account(t, "acc_1")
	var during []int
	w.next = func(rw http.ResponseWriter, _ *http.Request) error {
		w.next = func(rw http.ResponseWriter, _ *http.Request) error { rw.WriteHeader(http.StatusOK); return nil }
		for _, n := range []int{5, 4} {
			got, err := w.ask("POST", mcpPath, batch(n), bearer, jsonType)
			if err != nil {
				return err
			}
			during = append(during, got.Code)
		}
		rw.WriteHeader(http.StatusOK)
		return nil
	}
	if _, err := w.ask("POST", mcpPath, batch(6), bearer, jsonType); err != nil || !slices.Equal(during, []int{429, 200}) || w.running(t, "list") != 0 {
		t.Errorf("beside a batch of 6 of 10 calls at once: got %v, %v", during, err)
	}
}

// TestRateLimitOfRefundedBatch: a batch that is given back leaves as much as before,
// but it still runs.
func TestRateLimitOfRefundedBatch(t *testing.T) {
	t.Parallel()
	w := rpcWorld(t, true, func(c *policy.Config) {
		c.Refund = policy.RefundErrors
		c.Plans[0].MoreLimits = []policy.LimitConfig{{Endpoint: "list", Period: "week", Calls: true, Limit: 10}}
		c.Plans[0].Concurrent = []policy.ConcurrentConfig{{Endpoint: "list", Limit: 2}}
	})
	w.next = func(rw http.ResponseWriter, _ *http.Request) error { rw.WriteHeader(http.StatusBadRequest); return nil }
	got, err := w.ask("POST", mcpPath, `[{"method":"tools/list"},{"method":"tools/list"}]`, "Authorization: Bearer "+w.account(t, "acc_1"), jsonType)
	const want = `"list";r=1000;t=43200, "list-week-calls";r=10;t=388800, "list-concurrent";r=0`
	if rest := got.Header().Get("Ratelimit"); err != nil || rest != want {
		t.Errorf("got %s (%v), want %s", rest, err, want)
	}
}

// TestOperationsOfPlan: the plan and the key must have the endpoint that the body
// chooses. The other methods of the path are other routes.
func TestOperationsOfPlan(t *testing.T) {
	t.Parallel()
	w := rpcWorld(t, true, func(c *policy.Config) {
		c.Endpoints[3].Ability = "rates"
		delete(c.Plans[0].Limits, "list")
	})
	w.account(t, "acc_1")
	bearer := "Authorization: Bearer " + w.key(t, store.Key{ID: "key_2", Account: "acc_1", Name: "own", Abilities: []string{"convert"}})
	for body, want := range map[string]int{tool("search"): 403, tool("a"): 200, `{"method":"tools/list"}`: 403, `{"method":"x"}`: 200} {
		if got, err := w.ask("POST", mcpPath, body, bearer, jsonType); err != nil || got.Code != want {
			t.Errorf("%s: got %d %s, %v, want %d", body, got.Code, got.Body, err, want)
		}
	}
	for method, want := range map[string]int{"GET": 200, "DELETE": 405} {
		if got, err := w.ask(method, mcpPath, "", bearer); err != nil || got.Code != want || want == 405 && got.Header().Get("Allow") != "GET, HEAD, POST" {
			t.Errorf("%s: got %d %v, %v, want %d", method, got.Code, got.Header(), err, want)
		}
	}
	upgrade, err := w.ask("POST", mcpPath, tool("a"), bearer, jsonType, "Connection: upgrade", "Upgrade: websocket")
	if err != nil || upgrade.Code != http.StatusBadRequest {
		t.Errorf("upgrade: got %d, %v", upgrade.Code, err)
	}
}

// TestAnyMethodTakesOtherOperations: a route for any method has the requests that
// no endpoint with jsonrpc of the same path takes.
func TestAnyMethodTakesOtherOperations(t *testing.T) {
	t.Parallel()
	w := rpcWorld(t, false, func(c *policy.Config) {
		c.Endpoints = append([]policy.EndpointConfig{{Name: "mcp", Patterns: []string{"* " + mcpPath}, Ability: "convert"}}, c.Endpoints...)
		c.Plans[0].Limits["mcp"] = number(1000)
	})
	bearer := "Authorization: Bearer " + w.account(t, "acc_1")
	for _, body := range []string{`{"method":"ping"}`, tool("search")} {
		if got, err := w.ask("POST", mcpPath, body, bearer, jsonType); err != nil || got.Code != http.StatusOK {
			t.Errorf("%s: got %d %s, %v", body, got.Code, got.Body, err)
		}
	}
	if got, err := w.ask("DELETE", mcpPath, "", bearer); err != nil || got.Code != http.StatusOK {
		t.Errorf("DELETE: got %d %s, %v", got.Code, got.Body, err)
	}
	if counts := rpcCounts(t, w); counts != "search 5, mcp 2" {
		t.Errorf("counted %s", counts)
	}
}

// TestAnonymousOperations: a call without a key may use what the plan of these has,
// also if that is not the endpoint for the rest, or there is none.
func TestAnonymousOperations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		others      bool
		limits      []string
		other, ping int // statuses of another tool and of another method
	}{
		{true, []string{"list", "mcp"}, 401, 200},
		{true, []string{"list"}, 401, 401},
		{false, []string{"list"}, 401, 404},
	} {
		w := rpcWorld(t, test.others, func(c *policy.Config) {
			public := policy.PlanConfig{Name: "public", Limits: map[string]*policy.Limit{}}
			for _, name := range test.limits {
				public.Limits[name] = number(5)
			}
			c.Anonymous, c.Plans = &policy.AnonymousConfig{Plan: "public"}, append(c.Plans, public)
		})
		if _, err := w.db.ChangeAccount(t.Context(), policy.AnonymousAccount, func(a *store.Account, _ bool) error {
			*a = store.Account{ID: policy.AnonymousAccount, Plan: "public", CreatedAt: noon}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for body, want := range map[string]int{`{"method":"tools/list"}`: 200, tool("search"): test.other, tool("a"): test.other, `{"method":"ping"}`: test.ping} {
			if got, err := w.ask("POST", mcpPath, body, jsonType); err != nil || got.Code != want || want == 401 && !strings.Contains(got.Body.String(), "unauthenticated") {
				t.Errorf("%+v %s: got %d %s, %v, want %d", test, body, got.Code, got.Body, err, want)
			}
		}
	}
}

// TestForeseenOperation: without a body, the endpoint is that of the other requests,
// or the first one.
func TestForeseenOperation(t *testing.T) {
	t.Parallel()
	for others, want := range map[bool]string{true: "mcp", false: "tools"} {
		w := rpcWorld(t, others, nil)
		r := marked(httptest.NewRequest("POST", mcpPath, http.NoBody))
		r.Header.Set("Authorization", "Bearer "+w.account(t, "acc_1"))
		x := w.gate.Foresee(r, 1)
		if x.Refusal != nil || x.Route.Endpoint.Name != want || len(x.Route.Operations.List) != 3 || x.Cost != 1 {
			t.Errorf("got %+v, want the endpoint %s", x, want)
		}
	}
	w := rpcWorld(t, true, func(c *policy.Config) {
		c.Anonymous = &policy.AnonymousConfig{Plan: "public"}
		c.Plans = append(c.Plans, policy.PlanConfig{Name: "public", Limits: map[string]*policy.Limit{"list": number(5)}})
	})
	w.account(t, policy.AnonymousAccount)
	if x := w.gate.Foresee(marked(httptest.NewRequest("POST", mcpPath, http.NoBody)), 1); x.Step != "token" || x.Refusal == nil || x.Refusal.Status != 401 {
		t.Errorf("without a key, of an endpoint for others: got %+v", x)
	}
}

// FuzzOperations: no other reader finds another endpoint in a body that the gate
// admits, neither one that ignores case and takes the last of two members nor one
// that goes by exact names.
func FuzzOperations(f *testing.F) {
	for _, seed := range []string{
		tool("search"), tool("a"), `{"method":"tools/list"}`, `{"id":1,"result":{}}`, `{"method":"x","Method":"tools/list"}`, `{"method":"x","method":"tools/list"}`,
		"[" + tool("search") + "," + tool("search") + "]", `[{"method":"tools/list"},{"method":"x"}]`, `{"\u006dethod":"\u0074ools/call","params":{"n\u0061me":"search"}}`,
		`{"method":"tools/call","params":{"name":"a","NAME":"search"}}`, `{"params":["search"],"method":"tools/call"}`, `[]`, `{}{}`, "{\"method\":\"\xff\"}", `{"method":"tools/list\u0000"}`,
	} {
		f.Add(seed)
	}
	w := rpcWorld(f, true, func(c *policy.Config) {
		for name := range c.Plans[0].Limits {
			c.Plans[0].Limits[name] = nil
		}
	})
	bearer := "Authorization: Bearer " + w.account(f, "acc_1")
	read := func(raw json.RawMessage, loose bool) (method, tool string) {
		var q struct {
			Method string
			Params json.RawMessage
		}
		var p struct{ Name string }
		if loose {
			_ = json.Unmarshal(raw, &q)
			_ = json.Unmarshal(q.Params, &p)
			return q.Method, p.Name
		}
		var members, params map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members)
		_ = json.Unmarshal(members["method"], &method)
		_ = json.Unmarshal(members["params"], &params)
		_ = json.Unmarshal(params["name"], &tool)
		return method, tool
	}
	f.Fuzz(func(t *testing.T, body string) {
		before := map[string]int64{}
		for _, e := range w.gate.Policy.Endpoints {
			before[e.Name] = w.used(t, "acc_1", e.Name, noon)
		}
		answer, err := w.ask("POST", mcpPath, body, bearer, jsonType)
		if err != nil {
			t.Fatal(err)
		}
		var found *policy.Endpoint
		var cost int64
		for _, e := range w.gate.Policy.Endpoints {
			if n := w.used(t, "acc_1", e.Name, noon) - before[e.Name]; n != 0 {
				if found != nil {
					t.Fatalf("counted on two endpoints: %q", body)
				}
				found, cost = e, n
			}
		}
		if answer.Code != http.StatusOK {
			if found != nil {
				t.Fatalf("a refused call costs %d", cost)
			}
			return
		}
		requests := []json.RawMessage{json.RawMessage(body)}
		if bytes.HasPrefix(bytes.TrimLeft([]byte(body), " \t\r\n"), []byte("[")) && json.Unmarshal([]byte(body), &requests) != nil || !json.Valid([]byte(body)) || !utf8.ValidString(body) {
			t.Fatalf("admitted what encoding/json refuses: %q", body)
		}
		if cost != found.Cost*int64(len(requests)) {
			t.Fatalf("counted %d for %d requests: %q", cost, len(requests), body)
		}
		for _, q := range requests {
			for _, loose := range []bool{false, true} {
				method, tool := read(q, loose)
				want := "mcp"
				switch {
				case method == "tools/call" && tool == "search":
					want = "search"
				case method == "tools/call":
					want = "tools"
				case method == "tools/list":
					want = "list"
				}
				if found.Name != want {
					t.Fatalf("counted %s, another reader (loose %v) finds %s: %q", found.Name, loose, want, body)
				}
			}
		}
	})
}
