package e2e_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tollgate/tollgate/caddymodule/control/api"
	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// logged is a line of the access log.
type logged struct {
	Status    int
	UserID    string `json:"user_id"`
	RequestID string `json:"request_id"`
	TS        time.Time
	Request   struct {
		URI     string
		Headers map[string]any
	}
	Call *struct {
		Account, Key, Endpoint, Day, Code string
		Cost                              int64
	}
}

// accessLog returns the lines of the access log, without those of requests
// that have no account. Caddy writes a line after the answer: stop it first.
func accessLog(t *testing.T, s *stack.Stack) (lines []logged) {
	t.Helper()
	for line := range strings.Lines(read(t, s.AccessLog())) {
		if l := decode[logged](t, line); l.Call != nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// prove sums up what an access log says about an account on a day, as
// operators do.
const prove = `zcat -f data/log/access*.log* |
	jq -r 'select(.call.account == "$ACCOUNT" and .call.day == "$DAY").call | [.endpoint, .cost] | @tsv' |
	awk '{ calls[$1] += $2 } END { for (e in calls) if (calls[e]) print e "," calls[e] }' | sort`

// leaked finds the calls of a key, as operators do.
const leaked = `zcat -f data/log/access*.log* | jq -r --arg key "$KEY" 'select(.call.key == $key) | [.ts, .request.client_ip, .request.uri, .status, .call.cost] | @tsv'`

// conversions is the body of a batch.
func conversions(n int) string {
	return `{"conversions":[` + strings.TrimSuffix(strings.Repeat(`{"from":"USD","to":"EUR","amount":1},`, n), ",") + `]}`
}

// TestAccessLog: the costs in the access log add up to the usage export,
// whatever became of the calls. The log has no token, no header, no query, and
// no long path, method or host.
func TestAccessLog(t *testing.T) { stack.Forms(t, logAccess) }

func logAccess(t *testing.T, form ...string) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte("the first half"))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(broken.Close)
	host := strings.Repeat("h", 300)
	form = append(form, "TOLLGATE_ADDRESS=http://"+host+":"+stack.FreePorts(t, 1)[0])
	s := stack.Start(t, stack.Shipped(t, "convert 1000\n", "convert 3\n", "ability convert\n", "ability convert\n\t\t\tcost json conversions\n",
		"{from}/{to}\n", "{from}/{to} {\n\t\t\tcost answer Tollgate-Cost reserve 60\n\t\t}\n",
		"\treverse_proxy {$", "\thandle /api/history/USD/* {\n\t\theader Tollgate-Cost 9\n\t\trespond rows\n\t}\n"+
			"\thandle /api/history/GBP/* {\n\t\trespond rows\n\t}\n"+
			"\thandle /api/rates/GBP {\n\t\treverse_proxy "+broken.Listener.Addr().String()+"\n\t}\n\treverse_proxy {$"), form...)
	account := newAccount(t, s, "ada@example.com", "starter")
	key := newKey(t, s, account, "ci")
	scoped := decode[issued](t, s.Tollgate("key", "create", account, "--name", "scoped", "--ability", "rates", "--json"))
	limited := decode[issued](t, s.Tollgate("key", "create", account, "--name", "limited", "--limit", "history 59 day", "--json"))
	type call struct {
		by         issued
		line, body string
		status     int
		endpoint   string
		cost       int64
		code       string
	}
	calls := slices.Repeat([]call{{key, "GET /api/convert/USD/100/EUR?date=2025-03-03", "", 200, "convert", 1, ""}}, 3)
	calls = append(calls,
		call{key, "GET /api/convert/USD/100/EUR?date=2025-03-03", "", 429, "convert", 0, "quota_exceeded"},
		call{key, "GET /api/rates/nothing", "", 400, "rates", 1, ""},
		call{key, "GET /api/rates/GBP", "", 200, "rates", 1, ""}, // the answer breaks off
		call{key, "POST /api/convert/batch", conversions(7), 200, "batch", 7, ""},
		call{key, "POST /api/convert/batch", conversions(50), 429, "batch", 0, "quota_exceeded"},
		call{scoped, "GET /api/currencies", "", 403, "currencies", 0, "insufficient_scope"},
		call{scoped, "GET /api/usage?access_token=" + scoped.Token, "", 400, "", 0, ""},
		call{key, "GET /api/history/USD/EUR", "", 200, "history", 9, ""},
		call{key, "GET /api/history/nothing/EUR", "", 400, "history", 0, ""}, // an error costs nothing
		call{key, "GET /api/history/GBP/EUR", "", 200, "history", 60, ""},    // the service does not tell the cost
		call{key, "GET /api/history/USD/EUR", "", 429, "history", 0, "quota_exceeded"},
		call{limited, "GET /api/history/USD/EUR", "", 403, "history", 0, "cost_above_limit"},
		call{key, "GET /api/usage?days=3", "", 200, "usage", 1, ""},
	)
	if !s.IsOneProcess() {
		calls = append(calls, call{key, "GET /api/rates/EUR", "", 502, "rates", 0, "upstream_unreachable"})
	}
	settled := int64(0)
	for _, c := range calls {
		if c.status == 502 {
			s.StopUpstream()
		}
		method, path, _ := strings.Cut(c.line, " ")
		response, text, err := s.TryCall(method, path, c.by.Token, strings.NewReader(c.body))
		if response == nil || response.StatusCode != c.status || (err != nil) != (path == "/api/rates/GBP") {
			t.Fatalf("%s: got %v %s %v, want %d", c.line, response, text, err, c.status)
		}
		if c.endpoint == "history" { // the next call has no room before it is settled
			settled += c.cost
			eventually(t, "the settlement of a call", func() error {
				if n := used(t, s, account, "history"); n != settled {
					return fmt.Errorf("%d counted", n)
				}
				return nil
			})
		}
	}
	calls = slices.DeleteFunc(calls, func(c call) bool { return c.endpoint == "" }) // without an account
	s.Call("GET", "/api/rates/"+key.Token, "", nil)
	s.Call("GET", "/api/rates/"+strings.Replace(key.Token, "_", "%5f", 1), "", nil)
	s.Call("GET", "/api/"+strings.Repeat("x", 5000), "", nil)
	s.Call(strings.Repeat("M", 5000), "/api/rates/EUR", "", nil)
	usage := decode[api.UsageDocument](t, s.Tollgate("usage", "show", account, "--json"))
	day := usage.Day
	exported := s.Tollgate("usage", "export", "--month", day[:len("2006-01")], "--format", "json")
	refused := s.Tollgate("usage", "refused", "--account", account, "--json")
	s.StopCaddy()
	for i, shown := range usage.RecentCalls {
		if c := calls[len(calls)-1-i]; shown.Endpoint != c.endpoint || shown.Cost != c.cost || shown.Code != c.code && c.status != 502 {
			t.Errorf("%s: the usage shows %+v, want %+v", c.line, shown, c)
		}
	}
	if len(usage.RecentCalls) != len(calls) {
		t.Errorf("the usage shows %d calls, want %d", len(usage.RecentCalls), len(calls))
	}
	for _, code := range []string{"quota_exceeded", "cost_above_limit"} {
		if want := `"endpoint":"history","code":"` + code + `","reason":"","calls":1}`; !strings.Contains(refused, want) {
			t.Errorf("the refused calls are %s, without %s", refused, want)
		}
	}

	ids := map[string]bool{}
	lines := accessLog(t, s)
	for i, l := range lines {
		ids[l.RequestID] = true
		if i >= len(calls) {
			continue
		}
		c := calls[i]
		uri, _, _ := strings.Cut(strings.Fields(c.line)[1], "?")
		if l.Status != c.status || l.UserID != account || l.Request.URI != uri || len(l.Request.Headers) > 0 || len(l.RequestID) != 36 ||
			l.Call.Account != account || l.Call.Key != c.by.ID || l.Call.Endpoint != c.endpoint || l.Call.Day != day || l.Call.Cost != c.cost || l.Call.Code != c.code {
			t.Errorf("%s: logged %+v, want %+v", c.line, l, c)
		}
	}
	if len(lines) != len(calls) || len(ids) != len(lines) {
		t.Errorf("logged %d calls with %d ids, want %d of each", len(lines), len(ids), len(calls))
	}
	log := read(t, s.AccessLog())
	for text, want := range map[string]int{
		"?": 0, "Authorization": 0, `"uuid"`: 0, key.Token[4:]: 0, `"uri":"/api/rates/REDACTED"`: 2,
		`"uri":"/api/` + strings.Repeat("x", 500-len("/api/")) + `"`: 1, `"method":"` + strings.Repeat("M", 20) + `"`: 1,
		`"host":"` + host[:255] + `"`: strings.Count(log, "\n"),
	} {
		if got := strings.Count(log, text); got != want {
			t.Errorf("the access log has %q %d times, want %d:\n%s", text, got, want, log)
		}
	}

	bill := map[string]int64{}
	for _, row := range decode[[]struct {
		Account, Endpoint string
		Calls             int64
	}](t, exported) {
		if row.Account == account {
			bill[row.Endpoint] += row.Calls
		}
	}
	var want strings.Builder
	for _, endpoint := range slices.Sorted(maps.Keys(bill)) {
		text, _ := json.Marshal(bill[endpoint])
		want.WriteString(endpoint + "," + string(text) + "\n")
	}
	if found, err := s.Shell(strings.ReplaceAll(leaked, "$KEY", key.ID)); err != nil || !strings.Contains(found, "\t127.0.0.1\t/api/rates/GBP\t200\t1\n") {
		t.Errorf("the recipe for a leaked key finds\n%s%v", found, err)
	}
	proof, err := s.Shell(strings.NewReplacer("$ACCOUNT", account, "$DAY", day).Replace(prove))
	if err != nil || proof != want.String() || bill["convert"] != 3 || bill["batch"] != 7 || bill["history"] != 69 {
		t.Errorf("the access log proves\n%s%v, the usage export has\n%s", proof, err, &want)
	}
}

// TestAccessLogIsKept: Caddy keeps all files of the access log for 400 days, and
// deletes older ones.
func TestAccessLogIsKept(t *testing.T) {
	t.Parallel()
	s := stack.Start(t, stack.Shipped(t))
	s.StopCaddy()
	rotated := func(days int) string {
		at := time.Now().AddDate(0, 0, -days).UTC().Format("2006-01-02T15-04-05.000")
		file := filepath.Join(filepath.Dir(s.AccessLog()), "access-"+at+"-size.log.gz")
		must(t, os.WriteFile(file, nil, 0o600))
		return file
	}
	old, kept := rotated(401), rotated(399)
	for i := range 20 {
		rotated(300 + i)
	}
	s.StartCaddy()
	eventually(t, "the deletion of an old log", func() error {
		_, err := os.Stat(old)
		if os.IsNotExist(err) {
			return nil
		}
		return os.ErrExist
	})
	files, err := filepath.Glob(filepath.Join(filepath.Dir(kept), "access-*"))
	if err != nil || len(files) != 21 || !slices.Contains(files, kept) {
		t.Errorf("%q remain (%v), want all of the last 400 days", files, err)
	}
}
