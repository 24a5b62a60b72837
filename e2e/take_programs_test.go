package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-tollgate/tollgate/e2e/stack"
)

// counting is a gate that other programs ask to count their calls.
const counting = `{
	tollgate {
		store badger {$TOLLGATE_DATA}/gate
		secret {env.TOLLGATE_SECRET}
		take_secret {env.TAKE_SECRET}
		guard /api/
		usage GET /api/usage
		endpoint report POST /api/reports
		endpoint tokens POST /api/tokens {
			cost answer Tollgate-Cost reserve 50
		}
		plan starter {
			usage 100
			report 2
			tokens 60
		}
	}
}

{$TOLLGATE_ADDRESS} {
	tollgate
}

http://{$TOLLGATE_CONTROL} {
	tollgate_control
}
`

var takeSecret = strings.Repeat("fedcba9876543210", 4)

func startCounting(t *testing.T) *stack.Stack {
	t.Helper()
	return stack.StartGate(t, counting, "TAKE_SECRET="+takeSecret)
}

// takers are programs that call the functions of docs/take as their argument says,
// and print what these return.
var takers = map[string]func(t *testing.T, steps string) *exec.Cmd{
	"Python": func(t *testing.T, steps string) *exec.Cmd {
		needPrograms(t, "python3")
		return exec.CommandContext(t.Context(), "python3", "-B", "-c", `
import json, sys
sys.path.insert(0, sys.argv[2])
from take import take, settle
for step in json.loads(sys.argv[1]):
    try:
        print(json.dumps(settle(*step) if isinstance(step, list) else take(**step)))
    except OSError as error:
        print(json.dumps({"error": error.code}))
`, steps, filepath.Join(stack.Root(), "docs", "take"))
	},
	"Node": func(t *testing.T, steps string) *exec.Cmd {
		needPrograms(t, "node")
		return exec.CommandContext(t.Context(), "node", "--input-type=module", "-e", `
const { take, settle } = await import(process.argv[2])
for (const step of JSON.parse(process.argv[1])) {
	try {
		console.log(JSON.stringify(await (Array.isArray(step) ? settle(...step) : take(step))))
	} catch (error) {
		console.log(JSON.stringify({ error: error.status }))
	}
}
`, steps, filepath.Join(stack.Root(), "docs", "take", "take.mjs"))
	},
}

// taken is what a program printed of one step.
type taken struct {
	Admitted                 bool
	Account, Plan, Key, Call string
	Status, Error            int
	Code, Message            string
	RetryAfter               int64 `json:"retry_after"`
	Limits                   []struct{ Remaining int64 }
}

// runTaker runs steps at a control listener.
func runTaker(t *testing.T, program, control, secret string, steps ...any) (results []taken) {
	t.Helper()
	text, err := json.Marshal(steps)
	must(t, err)
	cmd := takers[program](t, string(text))
	cmd.Env = append(os.Environ(), "TOLLGATE_CONTROL="+control, "TOLLGATE_TAKE_SECRET="+secret)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if line == "null\n" {
			line = "{}"
		}
		results = append(results, decode[taken](t, line))
	}
	if len(results) != len(steps) {
		t.Fatalf("%d steps printed %s", len(steps), out)
	}
	return results
}

// TestTakePrograms runs docs/take with Python and Node: an id is counted once, a
// refusal is no error, a cost is settled, and without the gate nothing is admitted.
func TestTakePrograms(t *testing.T) {
	t.Parallel()
	s := startCounting(t)
	control := strings.TrimPrefix(s.Control(), "http://")
	for program := range takers {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			account := "acc_" + strings.ToLower(program)
			s.Tollgate("account", "set", account, "--plan", "starter")
			key := newKey(t, s, account, "ci")
			report := func(id string) any { return map[string]string{"account": account, "endpoint": "report", "id": id} }
			got := runTaker(t, program, control, takeSecret, report("job-1"), report("job-1"), report("job-2"), report("job-3"),
				map[string]any{"token": key.Token, "endpoint": "tokens", "cost": 40},
				map[string]string{"token": key.Token + "x", "endpoint": "tokens"},
				map[string]string{"account": account, "endpoint": "nothing"}, map[string]string{"endpoint": "report"}, []any{"call_unknown", 1})
			for _, one := range got[:3] {
				if !one.Admitted || one.Account != account || one.Plan != "starter" || one.Call == "" || len(one.Limits) != 1 {
					t.Errorf("got %+v, want an admitted call", one)
				}
			}
			if got[0].Call != got[1].Call || got[1].Call == got[2].Call {
				t.Errorf("job-1 twice and job-2 are the calls %q, %q and %q", got[0].Call, got[1].Call, got[2].Call)
			}
			if one := got[3]; one.Admitted || one.Status != 429 || one.Code != "quota_exceeded" || one.RetryAfter <= 0 || !strings.Contains(one.Message, "2 calls a day to report") {
				t.Errorf("above the limit: got %+v", one)
			}
			if one := got[4]; !one.Admitted || one.Key != key.ID {
				t.Errorf("with a token: got %+v", one)
			}
			if one := got[5]; one.Admitted || one.Status != 401 || one.Code != "invalid_token" {
				t.Errorf("with an invalid token: got %+v", one)
			}
			for _, one := range got[6:] {
				if one.Error < 400 || one.Error >= 500 {
					t.Errorf("got %+v, want an error", one)
				}
			}
			if settled := runTaker(t, program, control, takeSecret, []any{got[4].Call, 17}); settled[0].Error != 0 {
				t.Errorf("settling: got %+v", settled)
			}
			if used := usedBy(t, s, account); used["report"] != 2 || used["tokens"] != 17 {
				t.Errorf("counted %v, want 2 reports and 17 tokens", used)
			}
			if one := runTaker(t, program, control, "wrong", report("job-4"))[0]; one.Error != 401 {
				t.Errorf("with a wrong secret: got %+v", one)
			}
			nowhere := "127.0.0.1:" + stack.FreePorts(t, 1)[0]
			if one := runTaker(t, program, nowhere, takeSecret, report("job-5"))[0]; one.Admitted || one.Status != 503 || one.RetryAfter == 0 {
				t.Errorf("without the gate: got %+v", one)
			}
		})
	}
}

// TestTakeNginx runs docs/take with nginx and njs in front of a service.
func TestTakeNginx(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the answer has what came
		fmt.Fprintf(w, "%s %s %s %q %q", r.Method, r.URL, body, r.Header["Tollgate-Account"], r.Header["Authorization"])
	}))
	t.Cleanup(service.Close)
	s := startCounting(t)
	s.Tollgate("account", "set", "acc_1", "--plan", "starter")
	key := newKey(t, s, "acc_1", "ci").Token
	listed := decode[issued](t, s.Tollgate("key", "create", "acc_1", "--name", "elsewhere", "--from", "203.0.113.9", "--json")).Token
	documented := read(t, filepath.Join(stack.Root(), "docs", "take", "nginx.conf"))
	ports := stack.FreePorts(t, 2)
	conf := func(port, secret string) string {
		return strings.NewReplacer("listen 80;", "listen 127.0.0.1:"+port+";", "http://127.0.0.1:8081", s.Control(), "http://127.0.0.1:3000", service.URL,
			"<TOLLGATE_TAKE_SECRET>", secret).Replace(documented)
	}
	_, wrong, _ := strings.Cut(conf(ports[1], "wrong"), "server {")
	startNginx(t, "take", conf(ports[0], takeSecret)+"server {"+wrong, ports[0])

	call := func(port, token string, status int, want string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+"/reports/7?b=c", strings.NewReader("body"))
		must(t, err)
		r.Header.Set("Tollgate-Account", "acc_2")
		r.Header.Set("Tollgate-Actor", "a stranger")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := http.DefaultClient.Do(r)
		must(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		must(t, err)
		h := response.Header
		if response.StatusCode != status || !strings.Contains(string(body), want) {
			t.Errorf("token %.8q: got %s %s, want %d %s", token, response.Status, body, status, want)
		}
		if (status == 429 || status == 503) != (h.Get("Retry-After") != "") || (status == 401) != (h.Get("WWW-Authenticate") != "") {
			t.Errorf("token %.8q: got %s with the headers %v", token, response.Status, h)
		}
	}
	const passed = `POST /reports/7?b=c body ["acc_1"] []`
	call(ports[0], key, 200, passed)
	call(ports[0], "", 401, `"code":"invalid_token"`)
	call(ports[0], key+"x", 401, `"code":"invalid_token"`)
	call(ports[0], strings.Repeat("x", 5000), 401, `"code":"invalid_token"`)
	call(ports[0], listed, 403, `"code":"address_not_allowed"`)
	call(ports[0], key, 200, passed)
	call(ports[0], key, 429, `"code":"quota_exceeded"`)
	call(ports[1], key, 500, "")
	if used := usedBy(t, s, "acc_1"); used["report"] != 2 {
		t.Errorf("counted %v, want 2 reports", used)
	}
	s.StopCaddy()
	call(ports[0], key, 503, `"code":"unavailable"`)
	s.StartCaddy()
}
